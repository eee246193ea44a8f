// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scanyard/scanyard/apis/decision"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/results"
	"github.com/scanyard/scanyard/operator/internal/decisions"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// exporter is one that acknowledges each record. The forwarding module has the real one; the end-to-end test of decisions uses it.
func exporter(t *testing.T) (url string, lines <-chan string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	got := make(chan string, 100)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewScanner(conn)
		in.Buffer(nil, 1<<20)
		for n := 0; in.Scan(); {
			if strings.HasPrefix(in.Text(), `{"$`) {
				continue
			}
			n++
			got <- in.Text()
			if _, err := fmt.Fprintf(conn, "{\"ack\":{\"through\":%d}}\n", n); err != nil {
				return
			}
		}
	}()
	return "unix://" + path, got
}

func open(t *testing.T, url string) (*decisions.Log, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	l, err := decisions.Open(url, testclock.NewFakePassiveClock(now), registry)
	if err != nil {
		t.Fatal(err)
	}
	return l, registry
}

func scanWith(conditions ...metav1.Condition) *executionv1.Scan {
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nightly", UID: "u-1"}}
	s.Spec.ScanType, s.Status.Conditions = "nmap", conditions
	return s
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because of " + reason}
}

// TestRecords: what is told of each decision, and that nothing is told where nothing was decided.
func TestRecords(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return condition(executionv1.ConditionReady, status, reason)
	}
	changed := func(before *executionv1.Scan, after ...metav1.Condition) func(*decisions.Log) {
		return func(l *decisions.Log) {
			status := before.Status.DeepCopy()
			status.Conditions = after
			l.ScanChanged(before, status, "kubectl-edit")
		}
	}
	rerun := scanWith(ready(metav1.ConditionFalse, executionv1.ReasonNotAllowed))
	for name, c := range map[string]struct {
		do   func(*decisions.Log)
		want []string
	}{
		"NotAllowed": {
			changed(scanWith(), ready(metav1.ConditionFalse, executionv1.ReasonNotAllowed)),
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"scan_refused","message":"because of NotAllowed","constraintName":"NotAllowed","constraintAction":"deny",` +
				`"resourceKind":"Scan","resourceNamespace":"team","resourceName":"nightly","details":{"uid":"u-1","scanType":"nmap","reason":"NotAllowed"}}`},
		},
		"ToldBefore":   {changed(scanWith(ready(metav1.ConditionFalse, executionv1.ReasonNotAllowed)), ready(metav1.ConditionFalse, executionv1.ReasonNotAllowed)), nil},
		"OtherFailure": {changed(scanWith(), ready(metav1.ConditionFalse, executionv1.ReasonScannerFailed)), nil},
		"RefusedAgain": {
			func(l *decisions.Log) {
				after := rerun.Status.DeepCopy()
				after.LastRerun = "scanner@2"
				l.ScanChanged(rerun, after, "")
			},
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"scan_refused","message":"because of NotAllowed","constraintName":"NotAllowed","constraintAction":"deny",` +
				`"resourceKind":"Scan","resourceNamespace":"team","resourceName":"nightly","details":{"uid":"u-1","scanType":"nmap","reason":"NotAllowed"}}`},
		},
		"Cancelled": {
			changed(scanWith(), condition(executionv1.ConditionCancelled, metav1.ConditionTrue, executionv1.ReasonCancelledByUser)),
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"scan_cancelled","message":"because of CancelledByUser","resourceKind":"Scan","resourceNamespace":"team",` +
				`"resourceName":"nightly","details":{"uid":"u-1","scanType":"nmap","reason":"CancelledByUser","by":"kubectl-edit"}}`},
		},
		"CancelledTooLate": {changed(scanWith(), condition(executionv1.ConditionCancelled, metav1.ConditionFalse, executionv1.ReasonAlreadyEnded)), nil},
		"Waited": {
			func(l *decisions.Log) {
				l.ScanStarted(scanWith(condition(executionv1.ConditionAdmitted, metav1.ConditionFalse, executionv1.ReasonNamespaceLimit)), 90*time.Second)
			},
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"scan_waited","message":"The Scan has started. It had waited for its turn: because of NamespaceLimit",` +
				`"constraintName":"NamespaceLimit","constraintAction":"wait","resourceKind":"Scan","resourceNamespace":"team","resourceName":"nightly",` +
				`"details":{"uid":"u-1","scanType":"nmap","limit":"NamespaceLimit","seconds":90}}`},
		},
		"StartedAtOnce": {func(l *decisions.Log) { l.ScanStarted(scanWith(), time.Second) }, nil},
		"Deleted": {
			func(l *decisions.Log) { l.ScanDeletedUnforwarded(scanWith(), "gone") },
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"scan_deleted_unforwarded","message":"gone","resourceKind":"Scan","resourceNamespace":"team",` +
				`"resourceName":"nightly","details":{"uid":"u-1","scanType":"nmap"}}`},
		},
		"Released": {
			func(l *decisions.Log) {
				l.ResultsReleased(scanWith(), &results.ReleaseRequest{Revision: 2, Records: 7, Chain: "c0", Sinks: []string{"cluster/hub"}})
			},
			[]string{`{"timeStamp":"2026-11-23T12:00:00Z","eventType":"results_released","message":"The results are removed from the cluster, since every sink has them.",` +
				`"resourceKind":"Scan","resourceNamespace":"team","resourceName":"nightly",` +
				`"details":{"uid":"u-1","scanType":"nmap","revision":2,"records":7,"chain":"c0","sinks":["cluster/hub"]}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, lines := exporter(t)
			l, _ := open(t, url)
			c.do(l)
			if err := l.Close(t.Context()); err != nil { // all that was told is acknowledged then
				t.Fatal(err)
			}
			if got := drain(t, lines); !slices.Equal(got, c.want) {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

// drain gives the records that came, without their IDs, which are random.
func drain(t *testing.T, lines <-chan string) (all []string) {
	t.Helper()
	for {
		select {
		case line := <-lines:
			r, err := decision.Parse([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.Replace(line, fmt.Sprintf(`"decisionId":%q,`, r.DecisionID), "", 1))
		default:
			return all
		}
	}
}

func request(object string) *admission.Request {
	return &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Kind: "ScheduledScan"}, Namespace: "team", Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{Username: "alice"}, Object: runtime.RawExtension{Raw: []byte(object)}, DryRun: new(true),
	}}
}

var answer = &metav1.Status{
	Message: `ScheduledScan "s" is invalid`,
	Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Field: "spec.schedule", Message: "no schedule"}}},
}

// TestAdmissionRefused: the record has the object and the causes, and nothing that may be a secret.
func TestAdmissionRefused(t *testing.T) {
	const secret = "s3cr3t"
	object := `{"metadata":{"generateName":"s-","managedFields":[{"x":"s3cr3t"}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"s3cr3t","team":"a"}},` +
		`"data":{"k":"s3cr3t"},"stringData":{"k":"s3cr3t"},"spec":{"parameters":["-p","443"],"large":12345678901234567890,` +
		`"env":[{"name":"A","value":"s3cr3t"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"x"}}},"s3cr3t"],` +
		`"initContainers":[{"name":"i","env":[{"name":"C","value":"s3cr3t"}]}],"odd":{"env":"s3cr3t"},"jobPatches":[{"patch":"spec: s3cr3t"}]}}`
	url, lines := exporter(t)
	l, _ := open(t, url)
	l.AdmissionRefused("scanyard", request(object), answer)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := drain(t, lines)
	if len(got) != 1 || strings.Contains(got[0], secret) {
		t.Fatalf("told: %q", got)
	}
	want := `{"timeStamp":"2026-11-23T12:00:00Z","eventType":"webhook_violation","message":"ScheduledScan \"s\" is invalid",` +
		`"constraintKind":"ValidatingWebhookConfiguration","constraintName":"scanyard","constraintAction":"deny","resourceKind":"ScheduledScan","resourceNamespace":"team","resourceName":"s-",` +
		`"input":{"metadata":{"annotations":{"team":"a"},"generateName":"s-"},"spec":{"env":[{"name":"A"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"x"}}},null],` +
		`"initContainers":[{"env":[{"name":"C"}],"name":"i"}],"jobPatches":[{"patch":"(12 bytes are left out)"}],"large":12345678901234567890,"odd":{"env":null},"parameters":["-p","443"]}},` +
		`"details":{"causes":[{"reason":"FieldValueInvalid","message":"no schedule","field":"spec.schedule"}],"operation":"CREATE","user":"alice","dryRun":true}}`
	if got[0] != want {
		t.Error(cmp.Diff(want, got[0]))
	}
}

// TestFullBufferDoesNotBlock: without an exporter the buffer fills, and the rest is dropped and counted. The end of the operator is delayed by no more
// than its caller allows.
func TestFullBufferDoesNotBlock(t *testing.T) {
	l, registry := open(t, "unix://"+filepath.Join(t.TempDir(), "nobody"))
	for range 1024 + 5 {
		l.ScanDeletedUnforwarded(scanWith(), "gone")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(over); err == nil {
		t.Error("nothing says that records were given up")
	}
	want := `
		# HELP scanyard_decisions_dropped_total Records of decisions that the exporter never got, by reason (buffer: full; invalid; closed: at the end).
		# TYPE scanyard_decisions_dropped_total counter
		scanyard_decisions_dropped_total{reason="buffer"} 5
		scanyard_decisions_dropped_total{reason="closed"} 1024
		scanyard_decisions_dropped_total{reason="invalid"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestDisabledLogAllocatesNothing: without an exporter there is no Log, no metric, no goroutine and no allocation.
func TestDisabledLogAllocatesNothing(t *testing.T) {
	l, registry := open(t, "")
	if l != nil {
		t.Fatal("there is a Log without an exporter")
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("metrics %v, %v", families, err)
	}
	scan, asked, req := scanWith(condition(executionv1.ConditionReady, metav1.ConditionFalse, executionv1.ReasonNotAllowed)), &results.ReleaseRequest{}, request("{}")
	before := scanWith()
	if n := testing.AllocsPerRun(100, func() {
		l.ScanChanged(before, &scan.Status, "x")
		l.ScanStarted(scan, time.Second)
		l.ScanDeletedUnforwarded(scan, "gone")
		l.ResultsReleased(scan, asked)
		l.AdmissionRefused("scanyard", req, answer)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesNonSocket(t *testing.T) {
	for _, url := range []string{"grpc://127.0.0.1:1", "unix:", "unix://relative", "/run/socket"} {
		if _, err := decisions.Open(url, testclock.NewFakePassiveClock(now), prometheus.NewRegistry()); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}

func TestDetailsAreJSON(t *testing.T) {
	url, lines := exporter(t)
	l, _ := open(t, url)
	l.ScanDeletedUnforwarded(scanWith(), "a \"quoted\"\nline")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; !json.Valid([]byte(line)) {
		t.Errorf("no JSON: %s", line)
	}
}
