// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/pki"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/terminal"
)

// What the second cluster sends, and when the receiver is killed: the Scans are so large that they are on their way then.
const (
	otherCluster  = "eu-west"
	otherFindings = 10_000
	killAfter     = 5_000
	lookEvery     = 20 * time.Millisecond
	hubName       = "hub"
	complete      = "COMPLETE"
)

// otherScans are the Scans of the second cluster.
func otherScans() []string { return []string{"shop", "payment", "search"} }

// forwardedScans are Scans of the other steps, which run beside this one.
func forwardedScans() []client.ObjectKey {
	return []client.ObjectKey{{Namespace: teamA, Name: "open-ports"}, {Namespace: teamA, Name: "leaked-secrets"}, {Namespace: teamB, Name: "security-check"}}
}

// verdict is what the receiver says of a Scan.
type verdict struct {
	ClusterID, Tenant, Name, Completeness string
	Records                               int64
}

// forwarding is step 7: this cluster's forwarder sends what the other steps find, and forwarder send plays a second cluster. The
// receiver of both is killed when it has a part.
func (st *stage) forwarding(ctx context.Context) (_ typed, err error) {
	far, err := st.newReceiver()
	if err != nil {
		return typed{}, err
	}
	defer func() { err = errors.Join(err, far.stop(), os.RemoveAll(far.dir)) }()
	if err := far.start(ctx); err != nil {
		return typed{}, err
	}
	cluster, err := st.forwardTo(ctx, far)
	if err != nil {
		return typed{}, err
	}
	defer func() { err = errors.Join(err, st.forwardNoMore(context.WithoutCancel(ctx))) }()
	following := follow.Start[*executionv1.Scan](ctx, st.admin, &executionv1.ScanList{}, nil)
	defer following.Stop()
	want := map[verdict]bool{}
	for i, key := range forwardedScans() {
		s, err := following.Until(ctx, key.Namespace, key.Name, func(s *executionv1.Scan, there bool) bool { return there && isForwarded(s) })
		if err != nil {
			return typed{}, fmt.Errorf("the Scan %s is not forwarded: %w", key, err)
		}
		want[verdict{cluster, key.Namespace, key.Name, complete, scans.Count(s) + 1}] = true
		if i == 0 {
			if err := st.otherCluster(ctx, far); err != nil {
				return typed{}, err
			}
		}
	}
	for _, name := range otherScans() {
		want[verdict{otherCluster, name, name, complete, otherFindings + 1}] = true
	}
	return typed{}, st.proved(ctx, far, want)
}

func isForwarded(s *executionv1.Scan) bool {
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == executionv1.ConditionForwarded {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// far is a receiver beside the clusters, and how senders know it.
type far struct {
	binary, dir, grpc, http string
	authority               []byte
	process                 *exec.Cmd
}

func (st *stage) newReceiver() (*far, error) {
	free, err := ports.Free(2)
	if err != nil {
		return nil, err
	}
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	f := &far{binary: st.programs.Path("receiver"), dir: filepath.Join(st.files, hubName), grpc: at(free[0]), http: at(free[1])}
	authority, err := pki.NewAuthority(hubName, time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	f.authority = authority.CertPEM
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start the receiver: %w", err)
	}
	for name, content := range map[string][]byte{"ca.crt": f.authority, "tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM} {
		if err := os.WriteFile(filepath.Join(f.dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("start the receiver: %w", err)
		}
	}
	return f, nil
}

// start starts the receiver on its store and waits until it answers.
func (f *far) start(ctx context.Context) error {
	in := func(name string) string { return filepath.Join(f.dir, name) }
	log, err := os.OpenFile(in("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	defer log.Close() // the process has its own
	f.process = exec.CommandContext(
		ctx, f.binary, "run", "--store", in("store"), "--listen", f.grpc, "--http-listen", f.http, "--tls-cert", in("tls.crt"), "--tls-key", in("tls.key"),
	)
	f.process.Stderr = log
	if err := f.process.Start(); err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		last = f.read(ctx, "readyz", nil)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("the receiver does not answer: %w", err), last)
	}
	return nil
}

// kill is a kill -9.
func (f *far) kill() error {
	if err := f.process.Process.Kill(); err != nil {
		return fmt.Errorf("kill the receiver: %w", err)
	}
	var killed *exec.ExitError
	if err := f.process.Wait(); !errors.As(err, &killed) {
		return fmt.Errorf("the receiver ended before it was killed: %w", err)
	}
	f.process = nil
	return nil
}

// stop ends the receiver where it runs.
func (f *far) stop() error {
	if f.process == nil {
		return nil
	}
	err := f.process.Process.Signal(os.Interrupt)
	if err == nil {
		err = f.process.Wait()
	}
	f.process = nil
	if err != nil {
		return fmt.Errorf("stop the receiver: %w", err)
	}
	return nil
}

// read reads what the receiver tells over HTTP; into may be nil.
func (f *far) read(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.http+"/"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the receiver answers %s: %s", response.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// counters are what the receiver has counted.
type counters struct{ Stored, Duplicates, Conflicts, Rejected int64 }

// forwardTo installs the forwarder and names the receiver in the cluster's settings. It returns the cluster's ID.
func (st *stage) forwardTo(ctx context.Context, f *far) (string, error) {
	free, err := ports.Free(1)
	if err != nil {
		return "", err
	}
	in := metav1.ObjectMeta{Namespace: install.Namespace, Name: hubName}
	trusted := &corev1.ConfigMap{ObjectMeta: in, Data: map[string]string{"ca.crt": string(f.authority)}}
	if err := st.admin.Create(ctx, trusted); err != nil {
		return "", fmt.Errorf("write the receiver's authority: %w", err)
	}
	r := install.Release{Chart: "forwarding", Namespace: install.Namespace, Values: map[string]any{
		"operator":  map[string]any{"url": "https://" + st.op.Upload},
		"forwarder": map[string]any{"enabled": true, "port": free[0], "configMaps": []string{hubName}},
	}}
	if err := st.helm.Install(ctx, r); err != nil {
		return "", err
	}
	st.clock.say("%s, sends results to https://%s", describe(r), f.grpc)
	trust := &settingsv1alpha2.Authentication{ClientTrust: settingsv1alpha2.ClientTrust{ServerTrust: settingsv1alpha2.ServerTrust{ServerCA: hubName}}}
	setting := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}
	setting.Spec.ResultForwarding = &settingsv1alpha2.ClusterResultForwarding{
		ClusterSink: settingsv1alpha2.ClusterSink{Sink: settingsv1alpha2.Sink{
			Provider: settingsv1alpha2.ProviderGRPC, Since: settingsv1alpha2.SinceAll,
			GRPC: &settingsv1alpha2.GRPCSink{Endpoint: "https://" + f.grpc, Authentication: trust},
		}},
	}
	if err := st.admin.Create(ctx, setting); err != nil {
		return "", fmt.Errorf("write the settings: %w", err)
	}
	var system corev1.Namespace
	if err := st.admin.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("read the cluster's ID: %w", err)
	}
	return string(system.UID), nil
}

// forwardNoMore removes the settings: a cluster that is kept has no receiver.
func (st *stage) forwardNoMore(ctx context.Context) error {
	err := st.admin.Delete(ctx, &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}})
	if err != nil {
		return fmt.Errorf("remove the settings: %w", err)
	}
	return nil
}

// otherCluster sends the Scans of the second cluster, and kills the receiver meanwhile.
func (st *stage) otherCluster(ctx context.Context, f *far) error {
	var before, at counters
	if err := f.read(ctx, "v1/counters", &before); err != nil {
		return err
	}
	type end struct {
		name   string
		result terminal.Result
		err    error
	}
	ends := make(chan end, len(otherScans()))
	sending, stop := context.WithCancel(ctx)
	defer stop()
	for _, name := range otherScans() {
		args, err := f.otherScan(name)
		if err != nil {
			return err
		}
		go func() {
			r, err := terminal.Program{Path: st.programs.Path("forwarder")}.Run(sending, args...)
			ends <- end{name, r, err}
		}()
	}
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		err := f.read(ctx, "v1/counters", &at)
		return at.Stored >= before.Stored+killAfter, err
	})
	if err != nil {
		return fmt.Errorf("wait for records of %s: %w", otherCluster, err)
	}
	if len(ends) == cap(ends) {
		return fmt.Errorf("all of %s was sent before the receiver was killed", otherCluster)
	}
	if err := f.kill(); err != nil {
		return err
	}
	st.clock.say("%-26s killed (SIGKILL) when it had %d of %d records of %s, and started again",
		"receiver", at.Stored-before.Stored, len(otherScans())*(otherFindings+2), otherCluster)
	if err := f.start(ctx); err != nil {
		return err
	}
	for range otherScans() {
		if e := <-ends; e.err != nil || e.result.Code != 0 {
			err = errors.Join(err, fmt.Errorf("forwarder send of %s: %w %s", e.name, e.err, e.result.Said()))
		}
	}
	return err
}

// otherScan writes the files of a Scan of the second cluster, and returns what sends it.
func (f *far) otherScan(name string) ([]string, error) {
	scan := map[string]any{
		"apiVersion": executionv1.SchemeGroupVersion.String(), "kind": "Scan", "metadata": map[string]any{"name": name, "namespace": name, "uid": "uid-of-" + name},
		"spec": map[string]any{"scanType": "nmap"}, "status": map[string]any{"state": executionv1.ScanStateDone},
	}
	findings := make([]map[string]any, otherFindings)
	for i := range findings {
		findings[i] = map[string]any{
			"name": fmt.Sprintf("Open Port: %d", i+1), "category": "Open Port", "severity": "INFORMATIONAL", "osi_layer": "NETWORK",
			"location": fmt.Sprintf("tcp://%s.example.com:%d", name, i+1), "attributes": map[string]any{"port": i + 1, "state": "open"},
		}
	}
	to := fmt.Sprintf("%s=grpcs://%s,ca=%s", hubName, f.grpc, filepath.Join(f.dir, "ca.crt"))
	args := []string{"send", "--cluster-id", otherCluster, "--sink", to, "--retry-max", "1s", "--timeout", stepTimeout.String()}
	for flag, content := range map[string]any{"scan": scan, "findings": findings} {
		file := filepath.Join(f.dir, name+"-"+flag+".json")
		text, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("write the Scan %s: %w", name, err)
		}
		args = append(args, "--"+flag, file)
	}
	return args, nil
}

// proved asks the receiver, and then its store, whether everything is there.
func (st *stage) proved(ctx context.Context, f *far, want map[verdict]bool) error {
	var streams []verdict
	var counted counters
	if err := errors.Join(f.read(ctx, "v1/streams", &streams), f.read(ctx, "v1/counters", &counted)); err != nil {
		return err
	}
	here := len(want) - len(otherScans())
	for _, v := range streams {
		delete(want, v)
	}
	if len(want) > 0 || counted.Conflicts+counted.Rejected > 0 {
		return fmt.Errorf("the receiver should say %v as well; it says %v, %+v", want, streams, counted)
	}
	if err := f.stop(); err != nil {
		return err
	}
	r, err := terminal.Program{Path: f.binary}.Run(ctx, "verify", "--store", filepath.Join(f.dir, "store"))
	if err := says(r, err, 0, `"conflicts":0,"wrong":[]`); err != nil {
		return err
	}
	st.clock.say("%-26s COMPLETE: %d Scans of this cluster and %d of %s, with %d records; what came twice is stored once (%d)",
		"receiver", here, len(otherScans()), otherCluster, counted.Stored, counted.Duplicates)
	return nil
}
