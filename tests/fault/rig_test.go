// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/s3fault"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/suite"
)

// patience bounds a whole test, only to end a broken one.
const patience = 25 * time.Minute

func TestFault(t *testing.T) { suite.Run(t, "Scanyard while what it stands on breaks") }

// rig is a cluster with an operator that can be killed and a storage that can fail.
type rig struct {
	ctx      context.Context
	seed     uint64
	rand     *rand.Rand
	cluster  *localcluster.Cluster
	admin    client.WithWatch
	proxy    *s3fault.Proxy
	operator *install.Process
	helm     *install.Helm
	store    *minio.Client
	scans    *follow.Objects[*executionv1.Scan]
	ran      ledger.Ledger
	// ended is closed when the operator is not kept running any more.
	ended chan error
}

// newRig starts everything, with the storage's proxy between storage and the rest.
func newRig(ctx context.Context) *rig {
	GinkgoHelper()
	r := &rig{ctx: ctx, seed: number("FAULT_SEED", uint64(time.Now().UnixNano())), ended: make(chan error, 1)}
	AddReportEntry(fmt.Sprintf("FAULT_SEED=%d", r.seed), ReportEntryVisibilityFailureOrVerbose)
	r.rand = rand.New(rand.NewPCG(r.seed, 0))
	programs, err := install.FromEnvironment("../..")
	r.must(err)
	images := filepath.Join(GinkgoT().TempDir(), "images.yaml")
	r.must(install.WriteImagesMap(images, append(programs.Images(), install.Image{Image: "docker.io/fault/ok", Entrypoint: []string{"/bin/true"}})))
	r.cluster, err = localcluster.Start(ctx, localcluster.Options{
		Binary: programs.Path("localcluster"), Timeout: 5 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
	r.must(err)
	DeferCleanup(func() { r.must(r.cluster.Stop()) })
	r.connect()
	r.install(programs)
	r.scans = follow.Start[*executionv1.Scan](ctx, r.admin, &executionv1.ScanList{}, nil)
	follow.Start(ctx, r.admin, &batchv1.JobList{}, r.ran.Add, client.HasLabels{executionv1.LabelJobType})
	return r
}

func number(name string, fallback uint64) uint64 {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), name)
	return n
}

func (r *rig) must(err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
}

func (r *rig) connect() {
	GinkgoHelper()
	cfg, err := r.cluster.RESTConfig()
	r.must(err)
	r.admin, err = scans.Connect(cfg)
	r.must(err)
	o := r.cluster.ObjectStore
	r.store, err = minio.New(o.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: o.Region})
	r.must(err)
	r.proxy, err = s3fault.Start(o.Endpoint)
	r.must(err)
	DeferCleanup(r.proxy.Close)
}

// install takes CRDs and roles from the chart, and runs the operator beside it.
func (r *rig) install(p install.Programs) {
	GinkgoHelper()
	cfg, err := r.cluster.RESTConfig()
	r.must(err)
	r.helm, err = install.NewHelm(r.ctx, p, r.cluster.Kubeconfig, GinkgoT().TempDir())
	r.must(err)
	store := r.cluster.ObjectStore
	store.Endpoint = r.proxy.Endpoint()
	_, err = r.helm.InstallOperator(r.ctx, cfg, install.OperatorOptions{Store: store, Values: map[string]any{"replicas": 0}})
	r.must(err)
	for i := range namespaces {
		ns := namespace(i)
		release := install.Release{Chart: "test-scan", Namespace: ns}
		if keepsPhasesApart(ns) {
			release.Values = map[string]any{"scanner": map[string]any{"phases": executionv1.PhasesSeparate}}
		}
		r.must(r.helm.Install(r.ctx, release))
		r.must(r.admin.Create(r.ctx, &executionv1.ScanCompletionHook{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reads"},
			Spec:       executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Image: "docker.io/fault/ok"},
		}))
	}
	logFile := filepath.Join(GinkgoT().TempDir(), "operator.log")
	r.operator, err = install.NewProcess(p, r.cluster.Kubeconfig, logFile, store)
	r.must(err)
	r.must(r.operator.Start())
	keep, stop := context.WithCancel(r.ctx)
	go func() { r.ended <- r.operator.Keep(keep) }()
	DeferCleanup(func() {
		stop()
		r.must(<-r.ended)
		r.checkLog(logFile)
	})
}

// checkLog looks for what should never be logged, and shows the end if the test failed.
func (r *rig) checkLog(file string) {
	b, err := os.ReadFile(file)
	r.must(err)
	if keep := os.Getenv("OPERATOR_LOG"); keep != "" {
		r.must(os.WriteFile(keep, b, 0o600))
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "panic") || strings.Contains(line, "X-Amz-Signature") {
			Fail(fmt.Sprintf("the operator logged: %s", line))
		}
	}
	if CurrentSpecReport().Failed() {
		GinkgoWriter.Printf("the operator logged last:\n%s\n", b[max(0, len(b)-4000):])
	}
}

// namespaces is over how many the Scans are spread.
const namespaces = 4

func namespace(i int) string { return fmt.Sprintf("fault-%d", i%namespaces) }

// keepsPhasesApart says whether parsers have pods of their own in a namespace: every other one has them in the scanner's pod.
func keepsPhasesApart(ns string) bool { return ns == namespace(1) || ns == namespace(3) }

// checkJobs holds the Jobs that a Scan with one hook has had against those it should have had. A parser in the scanner's pod that a
// fault has cut off gets a Job, once.
func (r *rig) checkJobs(s *executionv1.Scan, hook string) {
	GinkgoHelper()
	roles := []string{"scanner", "read-only-hook/" + hook}
	if keepsPhasesApart(s.Namespace) || r.ran.Of(s.UID)["parser"] == 1 {
		roles = append(roles, "parser")
	}
	r.must(r.ran.Check(s, roles...))
}

// run lets Scans go through, a few dozen at a time, and returns them all. done says
// how many are settled, while it waits.
func (r *rig) run(n, inFlight int) []*executionv1.Scan {
	GinkgoHelper()
	all := make([]*executionv1.Scan, 0, n)
	for i := range n {
		_, err := r.scans.UntilAll(r.ctx, func(have []*executionv1.Scan) bool { return i-settled(have) < inFlight })
		r.must(err)
		s := scans.New(namespace(i), fmt.Sprintf("scan-%03d", i), "test-scan")
		r.must(r.retry(func() error { return r.admin.Create(r.ctx, s) }))
		all = append(all, s)
	}
	have, err := r.scans.UntilAll(r.ctx, func(have []*executionv1.Scan) bool { return settled(have) == n })
	if err != nil {
		for _, s := range have {
			if !s.Settled() {
				Fail(fmt.Sprintf("Scan %s/%s is %s: %s", s.Namespace, s.Name, s.Status.State, scans.Ready(s).Message))
			}
		}
	}
	return all
}

// retry does something until it works: the API server may be away. What exists has
// been made by a try whose answer was lost.
func (r *rig) retry(f func() error) error {
	var last error
	err := wait.PollUntilContextCancel(r.ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	return errors.Join(err, ignoreIf(err == nil, last))
}

func ignoreIf(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

func settled(all []*executionv1.Scan) int {
	n := 0
	for _, s := range all {
		if s.Settled() {
			n++
		}
	}
	return n
}

// check holds every Scan against what it should have come to.
func (r *rig) check(n int) {
	GinkgoHelper()
	have := r.scans.All()
	if len(have) != n {
		Fail(fmt.Sprintf("there are %d Scans, want %d", len(have), n))
	}
	for _, s := range have {
		if s.Status.State != executionv1.ScanStateDone {
			Fail(fmt.Sprintf("Scan %s/%s ended %s: %s", s.Namespace, s.Name, s.Status.State, s.Status.ErrorDescription))
			continue
		}
		r.checkJobs(s, "reads")
		if scans.Count(s) != 2 || scans.Ready(s).Reason != executionv1.ReasonCompleted {
			Fail(fmt.Sprintf("Scan %s/%s has %d findings and reason %s", s.Namespace, s.Name, scans.Count(s), scans.Ready(s).Reason))
		}
		if all, err := scans.Findings(r.ctx, s); err != nil || len(all) != 2 {
			Fail(fmt.Sprintf("Scan %s/%s has stored %d findings: %v", s.Namespace, s.Name, len(all), err))
		}
	}
}

// deleteAll deletes all Scans and waits until they, and what they stored, are gone.
func (r *rig) deleteAll() {
	GinkgoHelper()
	for i := range namespaces {
		r.must(r.retry(func() error { return r.admin.DeleteAllOf(r.ctx, &executionv1.Scan{}, client.InNamespace(namespace(i))) }))
	}
	left, err := r.scans.UntilAll(r.ctx, func(have []*executionv1.Scan) bool { return len(have) == 0 })
	if err != nil {
		Fail(fmt.Sprintf("%d Scans are still there: %v", len(left), err))
	}
	count := 0
	for o := range r.store.ListObjects(r.ctx, r.cluster.ObjectStore.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		r.must(o.Err)
		if count++; count < 10 {
			Fail(fmt.Sprintf("storage still has %s", o.Key))
		}
	}
	if count > 0 {
		Fail(fmt.Sprintf("storage still has %d objects", count))
	}
	var pods corev1.PodList
	err = wait.PollUntilContextCancel(r.ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := r.admin.List(ctx, &pods, client.MatchingLabels{executionv1.LabelManagedBy: executionv1.ManagedBy})
		return len(pods.Items) == 0, err
	})
	if err != nil {
		Fail(fmt.Sprintf("%d pods are still there: %v", len(pods.Items), err))
	}
}

// during breaks things again and again until stop is called, which waits for the end.
func (r *rig) during(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = f(ctx)
		}
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = nil
		}
		ended <- err
	}()
	return func() {
		cancel()
		r.must(<-ended)
	}
}

// pause waits for a time drawn between two bounds.
func (r *rig) pause(ctx context.Context, from, to time.Duration) error {
	d := from + time.Duration(r.rand.Int64N(int64(to-from)))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
