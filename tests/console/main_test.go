// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/browser"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// world is what all tests share.
type world struct {
	cluster *testcluster.Cluster
	storage *minio.Client
	// url is where the console is, without a path.
	url string
	// ctx has the browser, which is signed in.
	ctx context.Context
	// provider signs people in, whose tokens the cluster takes.
	provider *provider
}

var w world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end, err := w.start(ctx)
	code := 1
	if err == nil {
		code = m.Run()
	}
	if store.stop != nil {
		store.stop()
	}
	if err := errors.Join(err, end()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// start starts everything. What it returns ends that again, also after an error.
func (w *world) start(ctx context.Context) (end func() error, err error) {
	var ends []func() error
	end = func() error {
		var errs []error
		for _, last := range slices.Backward(ends) {
			errs = append(errs, last())
		}
		return errors.Join(errs...)
	}
	if w.provider, err = startProvider(); err != nil {
		return end, err
	}
	ends = append(ends, w.provider.stop)
	if w.cluster, err = testcluster.Start(ctx, "--authentication-config", w.provider.config); err != nil {
		return end, err
	}
	ends = append(ends, w.cluster.Stop)
	s := w.cluster.Storage
	w.storage, err = minio.New(s.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, BucketLookup: minio.BucketLookupPath})
	if err != nil {
		return end, fmt.Errorf("connect to storage: %w", err)
	}
	door, stop, err := w.serve(ctx)
	if err != nil {
		return end, err
	}
	ends = append(ends, stop)
	w.url, _, _ = strings.Cut(door, "/login")
	ctx, stop, err = browser.Start(ctx, door)
	ends = append(ends, stop)
	if err != nil {
		return end, err
	}
	w.ctx = ctx
	return end, nil
}

// serve starts the console of the command line, and returns the address that opens it.
func (w *world) serve(ctx context.Context) (door string, stop func() error, err error) {
	program := filepath.Join(cmp.Or(os.Getenv("SCANYARD_BIN"), "../../bin"), "scanyard")
	cmd := exec.CommandContext(ctx, program, "console", "--address", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the console: %w (\"make build\" makes the program; SCANYARD_BIN names another folder)", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the console prints no address: %w", err), cmd.Wait(), errors.New(said.String()))
	}
	stop = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("end the console: %w", err)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the console ends with %w: %s", err, said.String())
		}
		return nil
	}
	return strings.TrimSpace(line), stop, nil
}

// namespace makes a namespace for a test.
func (w *world) namespace(t *testing.T, name string) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	w.create(t, n)
	return n.Name
}

func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.cluster.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// scan makes a Scan and says what it does.
func (w *world) scan(t *testing.T, namespace, name string, does func(*executionv1.Scan)) *executionv1.Scan {
	t.Helper()
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.ScanType, s.Spec.Parameters = "nmap", []string{"-sV", name + ".example"}
	w.create(t, s)
	w.says(t, s, does)
	return s
}

// says lets a Scan do something else.
func (w *world) says(t *testing.T, s *executionv1.Scan, does func(*executionv1.Scan)) {
	t.Helper()
	before := s.DeepCopy()
	does(s)
	if err := w.cluster.Client.Status().Patch(t.Context(), s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// read reads a Scan.
func (w *world) read(t *testing.T, namespace, name string) *executionv1.Scan {
	t.Helper()
	s := &executionv1.Scan{}
	if err := w.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// found stores findings of a Scan, which is done then.
func (w *world) found(t *testing.T, s *executionv1.Scan, findings ...map[string]any) {
	t.Helper()
	content, err := json.Marshal(findings)
	if err != nil {
		t.Fatal(err)
	}
	key := "scan-" + string(s.UID) + "/findings.json"
	if _, err := w.storage.PutObject(t.Context(), w.cluster.Storage.Bucket, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	link, err := w.storage.PresignedGetObject(t.Context(), w.cluster.Storage.Bucket, key, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.says(t, s, func(s *executionv1.Scan) {
		done(s)
		s.Status.FindingDownloadLink = link.String()
		counts := map[string]*int64{}
		for _, severity := range []string{"HIGH", "MEDIUM", "LOW", "INFORMATIONAL"} {
			counts[severity] = new(int64)
		}
		for _, f := range findings {
			*counts[f["severity"].(string)]++
		}
		s.Status.Findings.Count = new(int64(len(findings)))
		s.Status.Findings.FindingSeverities = executionv1.FindingSeverities{
			High: counts["HIGH"], Medium: counts["MEDIUM"], Low: counts["LOW"], Informational: counts["INFORMATIONAL"],
		}
		s.Status.Findings.FindingCategories = map[string]int64{"Vulnerability": int64(len(findings))}
	})
}

// finding is an entry of findings.json.
func finding(name, severity string) map[string]any {
	return map[string]any{
		"id": "id-" + name, "fingerprint": "fp-" + strings.ReplaceAll(name, " ", "-"), "name": name, "severity": severity, "category": "Vulnerability",
		"location": "https://shop.example/login", "description": "What " + name + " is, in some words.", "mitigation": "Update the package.",
		"references": []any{map[string]any{"type": "CVE", "value": "CVE-2024-3094"}, map[string]any{"type": "URL", "value": "https://nvd.nist.gov/vuln/detail/CVE-2024-3094"}},
		"attributes": map[string]any{"port": 443, "state": "open", "certificate": map[string]any{"issuer": "Example CA", "names": []any{"a.example", "b.example"}}},
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// What Scans do.
func done(s *executionv1.Scan) {
	s.Status.State = executionv1.ScanStateDone
	s.Status.StartedAt, s.Status.FinishedAt = new(metav1.NewTime(s.CreationTimestamp.Time)), new(metav1.NewTime(s.CreationTimestamp.Add(90*time.Second)))
	s.Status.Conditions = []metav1.Condition{
		condition(executionv1.ConditionReady, metav1.ConditionTrue, executionv1.ReasonCompleted, "The scan is done."),
		condition(executionv1.ConditionScanned, metav1.ConditionTrue, executionv1.ReasonCompleted, "The raw result is stored."),
		condition(executionv1.ConditionParsed, metav1.ConditionTrue, executionv1.ReasonCompleted, "The findings are stored."),
	}
}

func running(s *executionv1.Scan) {
	s.Status.State, s.Status.StartedAt = executionv1.ScanStateScanning, new(s.CreationTimestamp)
	s.Status.Conditions = []metav1.Condition{
		condition(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonRunning, "The scanner runs."),
		condition(executionv1.ConditionScanned, metav1.ConditionUnknown, executionv1.ReasonRunning, "The scanner runs."),
	}
}

func waiting(s *executionv1.Scan) {
	s.Status.Queue = &executionv1.QueuePlace{Position: 2, Of: 5, NamespacePosition: 1, NamespaceOf: 1}
	s.Status.Conditions = []metav1.Condition{
		condition(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonQueued, "It waits for its turn: the team runs as many Scans as it may."),
	}
}

func failed(message string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, message
		s.Status.Conditions = []metav1.Condition{
			condition(executionv1.ConditionReady, metav1.ConditionFalse, executionv1.ReasonScannerFailed, message),
			condition(executionv1.ConditionScanned, metav1.ConditionFalse, executionv1.ReasonScannerFailed, message),
		}
	}
}
