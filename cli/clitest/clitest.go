// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// World is a namespace of a cluster, and a user who works in it.
type World struct {
	T         testing.TB
	Cluster   *testcluster.Cluster
	Client    client.Client
	Bucket    *Bucket
	Namespace string
	// Kubeconfig names the cluster and the namespace.
	Kubeconfig string
	// Program is how the user calls the command line; "" is scanyard.
	Program string
	// Live makes the session treat stderr as a terminal.
	Live bool
	// Color makes the session treat stdout as a terminal with colors.
	Color bool
	// Columns makes the session treat stdout as a terminal of this width.
	Columns int
	// Now is the user's clock.
	Now func() time.Time
}

// New makes a namespace.
func New(t testing.TB, c *testcluster.Cluster) *World {
	t.Helper()
	bucket, err := NewBucket(c.Storage, c.Storage.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cli-"}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	w := &World{T: t, Cluster: c, Client: c.Client, Bucket: bucket, Namespace: ns.Name, Now: time.Now}
	w.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := WriteKubeconfig(w.Kubeconfig, c.Config, ns.Name); err != nil {
		t.Fatal(err)
	}
	return w
}

// WriteKubeconfig writes a file for a connection.
func WriteKubeconfig(path string, c *rest.Config, namespace string) error {
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData, Token: c.BearerToken,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

// Result is how a command ended.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command line.
func (w *World) Run(args ...string) Result {
	w.T.Helper()
	return w.RunContext(w.T.Context(), args...)
}

// RunContext runs a command line until ctx ends, as Ctrl-C ends it.
func (w *World) RunContext(ctx context.Context, args ...string) Result {
	w.T.Helper()
	var out, errOut bytes.Buffer
	s, err := session.New(session.Options{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		Program: cmp.Or(w.Program, "scanyard"), Version: "test", Getenv: func(string) string { return "" }, Now: w.Now,
	})
	if err != nil {
		w.T.Fatal(err)
	}
	s.Live, s.Color, s.Columns = w.Live, w.Color, w.Columns
	root := cli.NewCommand(s)
	root.SetArgs(append([]string{"--kubeconfig", w.Kubeconfig}, args...))
	code := cli.End(s, root.ExecuteContext(ctx))
	return Result{code, out.String(), errOut.String()}
}

// Scan makes a Scan that is Done and stores its results. Edits are made before its status is written.
func (w *World) Scan(name string, findings, raw []byte, edits ...func(*executionv1.Scan)) *executionv1.Scan {
	w.T.Helper()
	s := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace},
		Spec:       executionv1.ScanSpec{ScanType: "trivy-image", Parameters: []string{"juice-shop"}},
	}
	finished := metav1.NewTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	s.Status = executionv1.ScanStatus{
		State: executionv1.ScanStateDone, FinishedAt: &finished, RawResultType: "trivy-json", RawResultFile: "result.json",
		ObservedGeneration: 1,
	}
	for _, kind := range []string{executionv1.ConditionScanned, executionv1.ConditionParsed} {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Completed", Message: "stored"})
	}
	for _, edit := range edits {
		edit(s)
	}
	status := s.Status
	if err := w.Client.Create(w.T.Context(), s); err != nil {
		w.T.Fatal(err)
	}
	w.Put(s, executionv1.FindingsFile, findings)
	w.Put(s, "result.json", raw)
	status.DeepCopyInto(&s.Status)
	w.Link(s, time.Hour)
	for _, edit := range edits {
		edit(s) // once more, over the links
	}
	w.WriteStatus(s)
	return s
}

// Link gives a Scan links in memory that are good for a time.
func (w *World) Link(s *executionv1.Scan, expiry time.Duration) {
	w.T.Helper()
	s.Status.FindingDownloadLink = w.presign(http.MethodGet, s, executionv1.FindingsFile, expiry)
	s.Status.RawResultDownloadLink = w.presign(http.MethodGet, s, s.Status.RawResultFile, expiry)
	s.Status.ScannerLogDownloadLink = w.presign(http.MethodGet, s, executionv1.ScannerLogFile, expiry)
}

// lasting is the context for writes of the operator of a test: an operator may still write its answer
// when the test has ended, and the clean-up waits for that.
func (w *World) lasting() context.Context { return context.WithoutCancel(w.T.Context()) }

// WriteStatus writes the status of a Scan as it is in memory.
func (w *World) WriteStatus(s *executionv1.Scan) {
	w.T.Helper()
	if err := w.Client.Status().Update(w.lasting(), s); err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) presign(method string, s *executionv1.Scan, file string, expiry time.Duration) string {
	w.T.Helper()
	link, err := w.Bucket.Presign(w.lasting(), method, s, file, expiry)
	if err != nil {
		w.T.Fatal(err)
	}
	return link
}

// Put stores a file of a Scan; nil stores none.
func (w *World) Put(s *executionv1.Scan, file string, body []byte) {
	w.T.Helper()
	if body == nil {
		return
	}
	link, err := w.Bucket.Presign(w.lasting(), http.MethodPut, s, file, time.Hour)
	if err != nil {
		w.T.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.lasting(), http.MethodPut, link, bytes.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		w.T.Fatal(fmt.Errorf("the store answers %s, %w", response.Status, err))
	}
}

// AwaitLaterSecond waits until the API server's clock is beyond the second in which a Scan was created: creation times
// have no fractions.
func (w *World) AwaitLaterSecond(scan string) {
	w.T.Helper()
	s := &executionv1.Scan{}
	if err := w.Client.Get(w.T.Context(), client.ObjectKey{Namespace: w.Namespace, Name: scan}, s); err != nil {
		w.T.Fatal(err)
	}
	for {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "clock-"}}
		if err := w.Client.Create(w.T.Context(), probe); err != nil {
			w.T.Fatal(err)
		}
		if s.CreationTimestamp.Before(&probe.CreationTimestamp) {
			return
		}
	}
}

// Operator plays the operator for the annotation scanyard.io/rerun, until the test ends. respond changes the status of a
// Scan for a request; the request is then recorded as handled.
func (w *World) Operator(respond func(s *executionv1.Scan, wish string)) {
	w.T.Helper()
	c, err := client.NewWithWatch(w.Cluster.Config, client.Options{Scheme: w.Cluster.Scheme})
	if err != nil {
		w.T.Fatal(err)
	}
	watcher, err := c.Watch(w.T.Context(), &executionv1.ScanList{}, client.InNamespace(w.Namespace))
	if err != nil {
		w.T.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			s, ok := e.Object.(*executionv1.Scan)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			wish := s.Annotations[executionv1.AnnotationRerun]
			if wish == "" || wish == s.Status.LastRerun {
				continue
			}
			respond(s, wish)
			s.Status.LastRerun = wish
			if err := w.Client.Status().Update(w.lasting(), s); err != nil && !apierrors.IsConflict(err) {
				w.T.Errorf("respond to %s: %v", wish, err)
			}
		}
	}()
	w.T.Cleanup(func() { watcher.Stop(); <-done })
}

// Answered sets the condition Rerun.
func Answered(s *executionv1.Scan, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: executionv1.ConditionRerun, Status: status, Reason: reason, Message: message})
}
