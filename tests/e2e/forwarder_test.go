// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/pki"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/localcluster/s3fault"
)

const (
	hubToken, hubAuthority = "hub-token", "hub-ca"
	forwarderPods          = "app.kubernetes.io/component=forwarder"
	receiverDeployment     = "forwarding-receiver"
)

// forwardingWorld is a cluster with the operator, the forwarder and a receiver: the ClusterScanSetting that names sinks counts for a
// whole cluster, and API server and storage are taken away.
type forwardingWorld struct {
	cluster *localcluster.Cluster
	storage *s3fault.Proxy
	release install.Release
	// metrics is where the forwarder shows metrics, near the receiver of the chart, hub a receiver beside the cluster.
	metrics   string
	near, hub receiver
	tokens    string
}

// receiver is a receiver. Address takes records, http tells of them.
type receiver struct{ address, http, authority string }

// newForwardingWorld makes the cluster that w is until the specs of the container have ended.
func newForwardingWorld(ctx context.Context, changes ...func(forwarder map[string]any)) *forwardingWorld {
	GinkgoHelper()
	f := &forwardingWorld{}
	suite := w
	w = &world{tools: suite.tools, hooks: suite.hooks}
	DeferCleanup(func() { w = suite })
	dir, err := os.MkdirTemp("", "scanyard-e2e-forwarding-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	w.place = place{Dir: dir}
	f.cluster, err = w.startCluster(ctx, dir)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(f.cluster.Stop)
	Expect(w.connect(f.cluster)).To(Succeed())
	w.helm, err = install.NewHelm(ctx, w.tools.Programs, f.cluster.Kubeconfig, w.place.helm())
	Expect(err).NotTo(HaveOccurred())
	f.storage, err = s3fault.Start(f.cluster.ObjectStore.Endpoint)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(f.storage.Close)
	store := f.cluster.ObjectStore
	store.Endpoint = f.storage.Endpoint()
	w.op, err = w.helm.InstallOperator(ctx, w.config, install.OperatorOptions{
		Store: store, Values: map[string]any{"resultsEndpoint": map[string]any{"enabled": true}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.op.Ready(ctx, 2*time.Minute)).To(Succeed())
	following, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	w.scans = follow.Start[*executionv1.Scan](following, w.admin, &executionv1.ScanList{}, nil)
	w.jobs = follow.Start(following, w.admin, &batchv1.JobList{}, w.ran.Add, client.HasLabels{executionv1.LabelJobType})
	f.startHub(ctx, dir)
	f.install(ctx, dir, changes)
	return f
}

// install installs the chart with forwarder and receiver. Pods share the network of the machine, so that they need ports of their own.
func (f *forwardingWorld) install(ctx context.Context, dir string, changes []func(forwarder map[string]any)) {
	GinkgoHelper()
	free, err := ports.Free(3)
	Expect(err).NotTo(HaveOccurred())
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	f.metrics, f.near = at(free[0]), receiver{address: at(free[1]), http: at(free[2]), authority: receiverDeployment + "-ca"}
	stored := filepath.Join(dir, "receiver")
	Expect(os.Mkdir(stored, 0o700)).To(Succeed())
	Expect(os.Chmod(stored, 0o777)).To(Succeed()) // the receiver is another user
	forwarder := map[string]any{"enabled": true, "port": free[0], "secrets": []string{hubToken}, "configMaps": []string{hubAuthority}}
	for _, change := range changes {
		change(forwarder)
	}
	f.release = install.Release{Chart: "forwarding", Namespace: install.Namespace, Values: map[string]any{
		"operator": map[string]any{"url": "https://" + w.op.Upload}, "forwarder": forwarder,
		"receiver": map[string]any{
			"enabled": true, "ports": map[string]any{"grpc": free[1], "http": free[2]},
			"volume": map[string]any{"hostPath": map[string]any{"path": stored}},
		},
	}}
	release(ctx, f.release)
	DeferCleanup(f.show)
	f.listens(ctx, f.near)
}

// startHub runs a receiver that asks for tokens, beside the cluster.
func (f *forwardingWorld) startHub(ctx context.Context, dir string) {
	GinkgoHelper()
	authority, err := pki.NewAuthority("hub", time.Now(), time.Hour)
	Expect(err).NotTo(HaveOccurred())
	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
	Expect(err).NotTo(HaveOccurred())
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	f.tokens = write("tokens", []byte("first\n"))
	free, err := ports.Free(2)
	Expect(err).NotTo(HaveOccurred())
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	f.hub = receiver{address: at(free[0]), http: at(free[1]), authority: hubAuthority}
	hub := exec.Command(w.tools.Path("receiver"), "run", "--store", filepath.Join(dir, "hub"), "--listen", f.hub.address, "--http-listen", f.hub.http,
		"--tokens", f.tokens, "--tls-cert", write("hub.crt", pair.CertPEM), "--tls-key", write("hub.key", pair.KeyPEM))
	hub.Stderr = GinkgoWriter
	Expect(hub.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(hub.Process.Signal(os.Interrupt)).To(Succeed())
		Expect(hub.Wait()).To(Succeed())
	})
	f.listens(ctx, f.hub)
	create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: hubAuthority}, Data: map[string]string{"ca.crt": string(authority.CertPEM)}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: hubToken}, StringData: map[string]string{"token": "first"}})
}

// listens waits until a receiver answers.
func (f *forwardingWorld) listens(ctx context.Context, far receiver) {
	GinkgoHelper()
	eventually(ctx, "the receiver to listen", func(ctx context.Context) (bool, error) {
		_, err := fetch(ctx, "http://"+far.http+"/readyz")
		return err == nil, nil
	})
}

// show prints what the programs have logged when a spec has failed.
func (f *forwardingWorld) show(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	f.logs(ctx)
	for _, s := range w.scans.All() {
		GinkgoWriter.Printf("Scan %s/%s: %+v, %+v, %+v\n", s.Namespace, s.Name, forwarded(s), resultsStored(s), s.Status.Forwarding)
	}
	setting, err := json.Marshal(f.setting(ctx))
	GinkgoWriter.Printf("the setting (%v): %s\n", err, setting)
	for _, far := range []receiver{f.near, f.hub} {
		streams, err := fetch(ctx, "http://"+far.http+"/v1/streams")
		GinkgoWriter.Printf("%s has (%v) %s\n", far.address, err, streams)
	}
}

func (f *forwardingWorld) logs(ctx context.Context) {
	for _, part := range []string{"forwarder", "receiver"} {
		pods, err := w.kube.CoreV1().Pods(install.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + part})
		if err != nil {
			GinkgoWriter.Println("list pods:", err)
			return
		}
		for i := range pods.Items {
			log, err := w.kube.CoreV1().Pods(install.Namespace).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{TailLines: new(int64(60))}).DoRaw(ctx)
			GinkgoWriter.Printf("log of %s (%v):\n%s\n", pods.Items[i].Name, err, log)
		}
	}
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, text)
	}
	return text, err
}

// heard is what a receiver tells of a stream.
type heard struct {
	Tenant, Name, UID, Completeness string
	Records                         int64
}

// streams are those that a receiver has, by the Scan's UID.
func (f *forwardingWorld) streams(ctx context.Context, far receiver) map[types.UID]heard {
	GinkgoHelper()
	text, err := fetch(ctx, "http://"+far.http+"/v1/streams")
	Expect(err).NotTo(HaveOccurred())
	var list []heard
	Expect(json.Unmarshal(text, &list)).To(Succeed())
	streams := map[types.UID]heard{}
	for _, one := range list {
		streams[types.UID(one.UID)] = one
	}
	return streams
}

// counters are what a receiver has counted since the store was made.
type counters struct{ Received, Stored, Duplicates, Conflicts, Rejected int64 }

func (f *forwardingWorld) counters(ctx context.Context, far receiver) (c counters) {
	GinkgoHelper()
	text, err := fetch(ctx, "http://"+far.http+"/v1/counters")
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(text, &c)).To(Succeed())
	return c
}

// sinkTo is the sink default of the ClusterScanSetting.
func (f *forwardingWorld) sinkTo(far receiver, more map[string]any) map[string]any {
	grpc := map[string]any{"endpoint": "https://" + far.address}
	if far.authority != "" {
		grpc["authentication"] = map[string]any{"serverCA": far.authority}
	}
	if far == f.hub {
		grpc["authentication"] = map[string]any{"serverCA": far.authority, "token": map[string]any{"secretName": hubToken}}
	}
	one := map[string]any{"provider": "grpc", "grpc": grpc, "holdSeconds": 0, "retry": map[string]any{"initialMilliseconds": 100, "maxSeconds": 2}}
	maps.Copy(one, more)
	return one
}

// forward writes the ClusterScanSetting, and waits until the operator has seen it and the forwarder says that it knows the sinks.
func (f *forwardingWorld) forward(ctx context.Context, sink map[string]any) {
	GinkgoHelper()
	raw, err := json.Marshal(sink)
	Expect(err).NotTo(HaveOccurred())
	s := f.setting(ctx)
	s.Spec.ResultForwarding = &settingsv1alpha2.ClusterResultForwarding{}
	Expect(json.Unmarshal(raw, s.Spec.ResultForwarding)).To(Succeed())
	if s.UID != "" {
		Expect(w.admin.Update(ctx, s)).To(Succeed())
	} else {
		create(ctx, s)
	}
	eventually(ctx, "the sink to be known", func(ctx context.Context) (bool, error) {
		s = f.setting(ctx)
		seen := s.Status.ObservedGeneration == s.Generation
		return seen && len(s.Status.Sinks) == len(s.Spec.ResultForwarding.All()) && len(s.Status.Conditions) > 0, nil
	})
}

// setting is the ClusterScanSetting as it is; without UID where there is none.
func (f *forwardingWorld) setting(ctx context.Context) *settingsv1alpha2.ClusterScanSetting {
	GinkgoHelper()
	s := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}
	Expect(client.IgnoreNotFound(w.admin.Get(ctx, client.ObjectKeyFromObject(s), s))).To(Succeed())
	return s
}

// scans makes Scans with a number of findings in a namespace of their own: a host and its ports.
func (f *forwardingWorld) scans(ctx context.Context, names string, n, findings int) []*executionv1.Scan {
	GinkgoHelper()
	ns := namespace(ctx)
	create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	head, tail, _ := strings.Cut(nmapXML("PORT"), `<port protocol="tcp" portid="PORT">`)
	open, tail, _ := strings.Cut(tail, "</port>")
	script := fmt.Sprintf(`{ printf '%%s' '%s'; i=1; while [ $i -lt %d ]; do printf '<port protocol="tcp" portid="%%s">%%s</port>\n' $i '%s'; i=$((i+1)); done; printf '%%s' '%s'; } > %s`,
		head, findings, open, tail, resultPath)
	list := make([]*executionv1.Scan, 0, n)
	for i := range n {
		list = append(list, shellScan(ns, fmt.Sprintf("%s-%d", names, i), script))
		create(ctx, list[i])
	}
	return list
}

// forwarded is the condition of a Scan.
func forwarded(s *executionv1.Scan) metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == executionv1.ConditionForwarded {
			return s.Status.Conditions[i]
		}
	}
	return metav1.Condition{}
}

// wantForwarded waits until the Scans are forwarded, and returns them as they are then.
func (f *forwardingWorld) wantForwarded(ctx context.Context, list ...*executionv1.Scan) []*executionv1.Scan {
	GinkgoHelper()
	got := make([]*executionv1.Scan, 0, len(list))
	for _, s := range list {
		one := until(ctx, s, "be forwarded", func(s *executionv1.Scan) bool { return forwarded(s).Status == metav1.ConditionTrue })
		Expect(one.Status.State).To(Equal(executionv1.ScanStateDone))
		Expect(one.Status.Forwarding).To(HaveLen(1))
		e := one.Status.Forwarding[0]
		Expect(e.Verdict).To(Equal(executionv1.SinkVerdict("Complete")))
		Expect(e.CompletedAt).NotTo(BeNil())
		Expect(e.Records).To(Equal(*one.Status.Findings.Count + 1))
		got = append(got, one)
	}
	return got
}

// waits waits until a Scan says why it is not forwarded.
func (f *forwardingWorld) waits(ctx context.Context, s *executionv1.Scan, reason string) {
	GinkgoHelper()
	until(ctx, s, "say "+reason, func(s *executionv1.Scan) bool { return forwarded(s).Reason == reason })
}

// wantComplete asks a receiver for the verdict on Scans.
func (f *forwardingWorld) wantComplete(ctx context.Context, far receiver, list ...*executionv1.Scan) {
	GinkgoHelper()
	streams := f.streams(ctx, far)
	for _, s := range list {
		Expect(streams[s.UID]).To(Equal(heard{Tenant: s.Namespace, Name: s.Name, UID: string(s.UID), Completeness: "COMPLETE", Records: *s.Status.Findings.Count + 1}))
	}
}

// scale sets the number of pods of a Deployment.
func (f *forwardingWorld) scale(ctx context.Context, name string, replicas int) {
	GinkgoHelper()
	_, err := w.kube.AppsV1().Deployments(install.Namespace).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// kill ends the forwarder as kill -9 does. Another pod takes its place.
func (f *forwardingWorld) kill(ctx context.Context) {
	GinkgoHelper()
	Expect(w.kube.CoreV1().Pods(install.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
		metav1.ListOptions{LabelSelector: forwarderPods})).To(Succeed())
}

var _ = Describe("The forwarder", Label("forwarding"), Ordered, func() {
	var f *forwardingWorld

	BeforeAll(func(ctx SpecContext) {
		f = newForwardingWorld(ctx)
	})

	It("takes a Scan's results from the operator to the receiver of the chart, which proves that all are there", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, nil))
		list := f.wantForwarded(ctx, f.scans(ctx, "arrives", 2, 40)...)
		f.wantComplete(ctx, f.near, list...)
		Expect(f.counters(ctx, f.near)).To(Equal(counters{Received: 84, Stored: 84}))
		eventually(ctx, "the setting to say that its sink is healthy", func(ctx context.Context) (bool, error) {
			return f.setting(ctx).Status.Sinks[0].Healthy == corev1.ConditionTrue, nil
		})
	})

	It("writes nothing while nothing happens, and never undoes what the operator writes (TestNoWriteFight)", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, nil))
		list := f.wantForwarded(ctx, f.scans(ctx, "quiet", 3, 5)...)
		versions := map[types.UID]string{}
		for _, s := range list {
			versions[s.UID] = s.ResourceVersion
		}
		watching, err := w.admin.Watch(ctx, &executionv1.ScanList{}, client.InNamespace(list[0].Namespace))
		Expect(err).NotTo(HaveOccurred())
		defer watching.Stop()
		idle := time.After(time.Minute)
		for ended := false; !ended; {
			select {
			case <-idle:
				ended = true
			case e, ok := <-watching.ResultChan():
				Expect(ok).To(BeTrue(), "the watch ended")
				s, ok := e.Object.(*executionv1.Scan)
				Expect(ok).To(BeTrue(), "%v", e.Object)
				if e.Type != watch.Added {
					Expect(s.ResourceVersion).To(Equal(versions[s.UID]), "Scan %s was written: %+v", s.Name, s.ManagedFields)
				}
			}
		}
		for _, s := range list {
			Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(s), s)).To(Succeed())
			Expect(s.ResourceVersion).To(Equal(versions[s.UID]), "Scan %s was written", s.Name)
		}
	})

	It("drains a backlog to the new place when the endpoint is edited, and loses none (TestForwardingEndpointEdit)", func(ctx SpecContext) {
		const scans, findings = 6, 30
		f.forward(ctx, f.sinkTo(f.near, map[string]any{"maxRecordsPerSecond": 20, "batch": map[string]any{"maxRecords": 10}}))
		before := f.counters(ctx, f.near)
		made := f.scans(ctx, "edited", scans, findings)
		eventually(ctx, "the backlog to drain", func(ctx context.Context) (bool, error) {
			return f.counters(ctx, f.near).Stored > before.Stored+findings, nil
		})
		f.forward(ctx, f.sinkTo(f.hub, nil))
		list := f.wantForwarded(ctx, made...)
		there, here := f.streams(ctx, f.near), f.streams(ctx, f.hub)
		moved := 0
		for _, s := range list {
			if here[s.UID].Completeness == "COMPLETE" {
				moved++
				Expect(here[s.UID].Records).To(Equal(*s.Status.Findings.Count + 1))
				continue
			}
			Expect(there[s.UID].Completeness).To(Equal("COMPLETE"), "Scan %s is nowhere: %+v, %+v", s.Name, there[s.UID], here[s.UID])
		}
		Expect(moved).To(BeNumerically(">", 0), "nothing was sent to the new place")
		after := f.counters(ctx, f.near)
		list = f.wantForwarded(ctx, f.scans(ctx, "after", 1, findings)...)
		f.wantComplete(ctx, f.hub, list...)
		Expect(f.counters(ctx, f.near)).To(Equal(after), "the old place still gets records")
	})

	It("takes the content of a Secret without a restart, and loses nothing in between", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.hub, nil))
		f.wantForwarded(ctx, f.scans(ctx, "before", 1, 3)...)
		Expect(os.WriteFile(f.tokens, []byte("second\n"), 0o600)).To(Succeed())
		// The receiver reads its tokens every second: what is sent with the old token meanwhile arrives.
		var refused *executionv1.Scan
		eventually(ctx, "the old token to be refused", func(ctx context.Context) (bool, error) {
			refused = f.scans(ctx, "rotated", 1, 3)[0]
			s := until(ctx, refused, "be forwarded or refused", func(s *executionv1.Scan) bool {
				return forwarded(s).Status == metav1.ConditionTrue || forwarded(s).Reason == "TokenRejected"
			})
			return forwarded(s).Status != metav1.ConditionTrue, nil
		})
		_, err := w.kube.CoreV1().Secrets(install.Namespace).Patch(ctx, hubToken, types.MergePatchType, []byte(`{"stringData":{"token":"second"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		f.wantComplete(ctx, f.hub, f.wantForwarded(ctx, refused)...)
		wantEvent(ctx, refused, "ForwardingFailed")
	})

	It("is killed, and nothing is lost; what is sent twice is suppressed (TestForwardingKill)", func(ctx SpecContext) {
		const scans, findings, kills = 4, 60, 2
		f.forward(ctx, f.sinkTo(f.near, map[string]any{"maxRecordsPerSecond": 15, "batch": map[string]any{"maxRecords": 10}}))
		before := f.counters(ctx, f.near)
		made := f.scans(ctx, "killed", scans, findings)
		for i := range kills {
			eventually(ctx, "records to arrive", func(ctx context.Context) (bool, error) {
				return f.counters(ctx, f.near).Stored >= before.Stored+int64((i+1)*findings/2), nil
			})
			f.kill(ctx)
		}
		list := f.wantForwarded(ctx, made...)
		f.wantComplete(ctx, f.near, list...)
		after := f.counters(ctx, f.near)
		Expect(after.Stored-before.Stored).To(BeEquivalentTo(scans*(findings+2)), "unique records")
		Expect(after.Conflicts+after.Rejected).To(BeZero(), "%+v", after)
		Expect(after.Received-before.Received).To(Equal(after.Stored-before.Stored+after.Duplicates-before.Duplicates), "what came twice is suppressed")
		Expect(after.Received-before.Received).To(BeNumerically("<=", (1+kills)*scans*(findings+2)), "sent more often than once and once for each restart")
	})

	It("believes no entry that it has not written (TestForwardingForgedStatus)", func(ctx SpecContext) {
		const forged = "scanyard_forwarding_forged_entries_total"
		f.forward(ctx, f.sinkTo(f.near, nil))
		list := f.wantForwarded(ctx, f.scans(ctx, "forged", 2, 5)...)
		before := f.metric(ctx, forged)
		// A pod of the Scan may patch its status, and some hooks of others replace it.
		patch := []byte(`{"status":{"forwarding":[{"sink":"cluster/default","revision":1,"records":6,"completedAt":"2030-01-01T00:00:00Z","verdict":"Complete","seal":"00"}]}}`)
		Expect(w.admin.Status().Patch(ctx, list[0].DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		replaced := list[1].DeepCopy()
		replaced.Status.Forwarding = nil
		replaced.Status.Conditions = slices.DeleteFunc(replaced.Status.Conditions, func(c metav1.Condition) bool { return c.Type == executionv1.ConditionForwarded })
		Expect(w.admin.Status().Update(ctx, replaced)).To(Succeed())
		for _, s := range list {
			until(ctx, s, "be forwarded anew", func(now *executionv1.Scan) bool {
				return now.ResourceVersion != s.ResourceVersion && forwarded(now).Status == metav1.ConditionTrue && len(now.Status.Forwarding) == 1 && now.Status.Forwarding[0].Seal != "00"
			})
		}
		f.wantComplete(ctx, f.near, list...)
		Expect(f.metric(ctx, forged) - before).To(BeNumerically(">=", 1))
		Expect(f.counters(ctx, f.near).Conflicts).To(BeZero())
	})

	It("waits while the receiver, storage or the API server is away, and goes on by itself (TestForwardingOutages)", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, nil))
		By("taking the receiver away")
		f.scale(ctx, receiverDeployment, 0)
		eventually(ctx, "the receiver to be gone", func(ctx context.Context) (bool, error) {
			_, err := fetch(ctx, "http://"+f.near.http+"/healthz")
			return err != nil, nil
		})
		away := f.scans(ctx, "receiver", 1, 5)
		f.waits(ctx, away[0], "ConnectionRefused")
		wantEvent(ctx, away[0], "ForwardingFailed")
		f.scale(ctx, receiverDeployment, 1)
		all := f.wantForwarded(ctx, away...)
		wantEvent(ctx, away[0], "Forwarded")

		By("taking storage away, while the forwarder is new and has nothing in memory")
		f.scale(ctx, "forwarding-forwarder", 0)
		eventually(ctx, "the forwarder to be gone", func(ctx context.Context) (bool, error) {
			_, err := fetch(ctx, "http://"+f.metrics+"/healthz")
			return err != nil, nil
		})
		unread := f.scans(ctx, "storage", 1, 5)
		settled(ctx, unread[0])
		f.storage.Fail(true)
		refused := f.storage.Refused()
		f.scale(ctx, "forwarding-forwarder", 1)
		eventually(ctx, "storage to refuse", func(context.Context) (bool, error) { return f.storage.Refused() > refused, nil })
		f.storage.Fail(false)
		all = append(all, f.wantForwarded(ctx, unread...)...)

		By("killing the API server while records are on their way")
		f.forward(ctx, f.sinkTo(f.near, map[string]any{"maxRecordsPerSecond": 20, "batch": map[string]any{"maxRecords": 10}}))
		before := f.counters(ctx, f.near)
		cut := f.scans(ctx, "apiserver", 2, 40)
		eventually(ctx, "records to arrive", func(ctx context.Context) (bool, error) { return f.counters(ctx, f.near).Stored > before.Stored, nil })
		w.apiServerKilled = true
		Expect(f.cluster.Kill(ctx, localcluster.APIServer)).To(Succeed())
		Expect(f.cluster.StartComponent(ctx, localcluster.APIServer)).To(Succeed())
		all = append(all, f.wantForwarded(ctx, cut...)...)

		f.wantComplete(ctx, f.near, all...)
		after := f.counters(ctx, f.near)
		Expect(after.Conflicts+after.Rejected).To(BeZero(), "%+v", after)
	})

	It("shows every metric that alerts and dashboard ask for", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, nil))
		f.wantForwarded(ctx, f.scans(ctx, "measured", 1, 3)...)
		// One sink takes records, and another one does not.
		dead := f.sinkTo(receiver{address: "127.0.0.1:1"}, map[string]any{"name": "dead"})
		delete(dead, "holdSeconds")
		f.forward(ctx, f.sinkTo(f.near, map[string]any{"sinks": []any{dead}}))
		waiting := f.scans(ctx, "measured", 1, 3)
		f.waits(ctx, waiting[0], "ConnectionRefused")
		exporter := f.exporter(ctx)
		shown := func() string {
			var text strings.Builder
			for _, at := range []string{f.metrics, f.near.http, exporter, w.op.Metrics} {
				one, err := fetch(ctx, "http://"+at+"/metrics")
				Expect(err).NotTo(HaveOccurred())
				text.Write(one)
			}
			return text.String()
		}
		asked := map[string]bool{}
		for _, file := range []string{"alerts/forwarding.yaml", "dashboards/forwarding.json"} {
			text, err := os.ReadFile(filepath.Join(w.tools.Charts, "forwarding", file))
			Expect(err).NotTo(HaveOccurred())
			for _, name := range regexp.MustCompile(`\bscanyard_[a-z_]+`).FindAllString(string(text), -1) {
				asked[name] = true
			}
		}
		Expect(len(asked)).To(BeNumerically(">", 15), "this spec no longer sees what is asked for")
		text := shown()
		for _, name := range slices.Sorted(maps.Keys(asked)) {
			if !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n"+name+" ") {
				AddReportEntry(name)
				asked[name] = false
			}
		}
		Expect(asked).NotTo(ContainElement(false), "no program shows these")
	})

	AfterAll(func(ctx SpecContext) {
		Expect(w.checkOperator(ctx)).To(Succeed())
	})
})

// exporter runs an exporter beside the cluster, with one record on the way, and returns where it shows metrics.
func (f *forwardingWorld) exporter(ctx context.Context) string {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "exporter-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	free, err := ports.Free(1)
	Expect(err).NotTo(HaveOccurred())
	address, socket := net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0])), filepath.Join(dir, "s", "socket")
	exporter := exec.Command(w.tools.Path("exporter"), "run", "--dir", filepath.Join(dir, "queue"), "--cluster-id", "0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10",
		"--socket", socket, "--socket-allow-uid", strconv.Itoa(os.Getuid()), "--http-listen", address, "--sink", "hub=grpcs://"+f.hub.address)
	exporter.Stderr = GinkgoWriter
	Expect(exporter.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(exporter.Process.Signal(os.Interrupt)).To(Succeed())
		Expect(exporter.Wait()).To(Succeed())
	})
	f.listens(ctx, receiver{http: address})
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	_, err = conn.Write([]byte(`{"eventType":"audit_violation","message":"a Pod without limits"}` + "\n"))
	Expect(err).NotTo(HaveOccurred())
	eventually(ctx, "the exporter to have been refused by the sink", func(ctx context.Context) (bool, error) {
		text, err := fetch(ctx, "http://"+address+"/metrics")
		return strings.Contains(string(text), "\nscanyard_forwarding_sink_reason{"), err
	})
	return address
}

// metric reads a counter of the forwarder that has no labels.
func (f *forwardingWorld) metric(ctx context.Context, name string) float64 {
	GinkgoHelper()
	var value float64
	eventually(ctx, name, func(ctx context.Context) (bool, error) {
		text, err := fetch(ctx, "http://"+f.metrics+"/metrics")
		if err != nil {
			return false, nil // it starts
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
				return true, err
			}
		}
		return false, nil
	})
	return value
}
