// SPDX-License-Identifier: Apache-2.0

package consoletest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Scan is a Scan that has done its work some time ago.
func Scan(namespace, name, kind string, ago time.Duration, with ...func(*executionv1.Scan)) *executionv1.Scan {
	at := Noon.Add(-ago)
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), CreationTimestamp: metav1.NewTime(at),
	}}
	s.Spec.ScanType, s.Spec.Parameters = kind, []string{"-sV", name + ".example"}
	Done(90 * time.Second)(s)
	for _, change := range with {
		change(s)
	}
	return s
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)}
}

// Done ends a Scan well.
func Done(took time.Duration) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		began := s.CreationTimestamp.Time
		s.Status.State = executionv1.ScanStateDone
		s.Status.StartedAt, s.Status.FinishedAt = new(metav1.NewTime(began.Add(2*time.Second))), new(metav1.NewTime(began.Add(took)))
		s.Status.Conditions = []metav1.Condition{
			condition(executionv1.ConditionReady, metav1.ConditionTrue, executionv1.ReasonCompleted, "The scan is done.", began.Add(took)),
			condition(executionv1.ConditionScanned, metav1.ConditionTrue, executionv1.ReasonCompleted, "The raw result is stored.", began.Add(took*7/10)),
			condition(executionv1.ConditionParsed, metav1.ConditionTrue, executionv1.ReasonCompleted, "The findings are stored.", began.Add(took*9/10)),
		}
	}
}

// Failed ends a Scan in its scanner.
func Failed(message string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		at := s.CreationTimestamp.Time
		s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, message
		s.Status.Conditions = []metav1.Condition{
			condition(executionv1.ConditionReady, metav1.ConditionFalse, executionv1.ReasonScannerFailed, message, at.Add(time.Minute)),
			condition(executionv1.ConditionScanned, metav1.ConditionFalse, executionv1.ReasonScannerFailed, message, at.Add(time.Minute)),
		}
	}
}

// Running lets a Scan scan.
func Running(s *executionv1.Scan) {
	s.Status = executionv1.ScanStatus{
		State: executionv1.ScanStateScanning, StartedAt: new(s.CreationTimestamp),
		Conditions: []metav1.Condition{
			condition(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonRunning, "The scanner runs.", s.CreationTimestamp.Time),
			condition(executionv1.ConditionScanned, metav1.ConditionUnknown, executionv1.ReasonRunning, "", s.CreationTimestamp.Time),
		},
	}
}

// Waiting lets a Scan wait for its turn.
func Waiting(s *executionv1.Scan) {
	s.Status = executionv1.ScanStatus{
		Queue: &executionv1.QueuePlace{Position: 2, Of: 5, NamespacePosition: 1, NamespaceOf: 1},
		Conditions: []metav1.Condition{
			condition(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonQueued, "It waits for its turn: team-blue runs as many Scans as it may.", s.CreationTimestamp.Time),
		},
	}
}

// Found gives a Scan counts of findings.
func Found(high, medium, low, informational int64) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Findings = executionv1.FindingStats{
			Count:             new(high + medium + low + informational),
			FindingSeverities: executionv1.FindingSeverities{High: &high, Medium: &medium, Low: &low, Informational: &informational},
			FindingCategories: map[string]int64{"Open Port": low + informational, "Vulnerability": high + medium},
		}
	}
}

// Finding is an entry of findings.json.
func Finding(name, severity string) map[string]any {
	return map[string]any{
		"id": "id-" + name, "fingerprint": "fp-" + strings.ReplaceAll(name, " ", "-"), "name": name, "severity": severity, "category": "Vulnerability",
		"location": "https://shop.example/login", "description": "What " + name + " is, in some words.", "mitigation": "Update the package.",
		"references": []any{map[string]any{"type": "CVE", "value": "CVE-2024-3094"}, map[string]any{"type": "URL", "value": "https://nvd.nist.gov/vuln/detail/CVE-2024-3094"}},
		"attributes": map[string]any{"port": 443, "state": "open", "certificate": map[string]any{"issuer": "Example CA", "names": []any{"a.example", "b.example"}}},
	}
}

// Exception is an exception of a namespace that ends some time ahead.
func Exception(namespace, name string, ahead time.Duration) *settingsv1alpha2.FindingException {
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(Noon.Add(-24 * time.Hour))}}
	e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionAccepted, "Fixed by the release of December, agreed with the owner."
	e.Spec.ExpiresAt = new(metav1.NewTime(Noon.Add(ahead)))
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Fingerprints: []string{"fp-excepted"}}}
	e.Status.Matched, e.Status.CreatedBy = new(int64(3)), "kim@example.com"
	return e
}

// Schedule is a ScheduledScan.
func Schedule(namespace, name string) *executionv1.ScheduledScan {
	s := &executionv1.ScheduledScan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("schedule-" + name)}}
	s.Spec.Interval, s.Spec.ScanSpec = "24h", &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"shop.example"}}
	s.Status.LastScheduleTime, s.Status.NextScheduleTime = new(metav1.NewTime(Noon.Add(-5*time.Hour))), new(metav1.NewTime(Noon.Add(19*time.Hour)))
	return s
}

// Teams are two teams at work.
func Teams() []client.Object {
	runs := func(s *executionv1.Scan) {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan", Name: "nightly", UID: "schedule-nightly", Controller: new(true),
		}}
	}
	failing := Schedule("team-red", "weekly")
	failing.Status.Conditions = []metav1.Condition{
		condition(executionv1.ConditionReady, metav1.ConditionFalse, "ScanTypeNotFound", "There is no ScanType zap in team-red: install its chart.", Noon.Add(-26*time.Hour)),
	}
	return []client.Object{
		Namespace("team-blue"), Namespace("team-red"), Namespace("platform"),
		Scan("team-blue", "nmap-shop", "nmap", time.Hour, Found(2, 5, 14, 30)),
		Scan("team-blue", "zap-shop", "zap", 3*time.Hour, Found(1, 12, 20, 4)),
		Scan("team-blue", "nmap-office", "nmap", 40*time.Second, Running),
		Scan("team-blue", "nuclei-api", "nuclei", 20*time.Second, Waiting),
		Scan("team-blue", "nightly-1", "nmap", 53*time.Hour, runs, Found(3, 4, 9, 9)),
		Scan("team-blue", "nightly-2", "nmap", 29*time.Hour, runs, Failed("The scanner ended with exit code 1: no route to host shop.example")),
		Scan("team-blue", "nightly-3", "nmap", 5*time.Hour, runs, Found(2, 3, 9, 9)),
		Scan("team-red", "gitleaks-api", "gitleaks", 26*time.Hour, Found(4, 0, 0, 0)),
		Scan("team-red", "trivy-web", "trivy", 30*time.Hour, Failed("The image registry.example/trivy:9 cannot be pulled: not found")),
		Schedule("team-blue", "nightly"), failing,
		Exception("team-blue", "accepted-tls", 6*24*time.Hour), Exception("team-blue", "accepted-ports", 80*24*time.Hour), Exception("team-red", "over", -24*time.Hour),
	}
}

// Rows are findings as the reports API has them, the same in each run.
func Rows(n int) []reportsv1alpha1.FindingRow {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	rows := make([]reportsv1alpha1.FindingRow, 0, n)
	for i := range n {
		score := float64(random.IntN(100)) / 10
		seen := metav1.NewTime(Noon.Add(-time.Duration(random.IntN(110*24)) * time.Hour))
		r := reportsv1alpha1.FindingRow{
			Namespace: pick("team-blue", "team-blue", "team-red", "platform"), Report: fmt.Sprintf("nmap-shop-%02d", i/1000), Kind: "PolicyReport", Index: new(int32(i % 1000)),
			Source: "scanyard/" + pick("nmap", "zap", "trivy", "gitleaks"), Policy: fmt.Sprintf("CVE-2024-%d", 3000+random.IntN(120)),
			Rule:     pick("Outdated OpenSSL", "Open port 22", "Content-Security-Policy is missing", "Hard-coded credential", "TLS 1.0 is offered", "Directory listing"),
			Category: pick("Vulnerability", "Open Port", "HTTP Header", "Secret", "TLS"), Severity: pick("critical", "high", "high", "medium", "medium", "medium", "low", "low", "info", "info"),
			Result: "fail", CVSS: &score, FirstSeen: &seen, Suppressed: random.IntN(20) == 0,
			Resource: &reportsv1alpha1.ResourceRef{Kind: "Deployment", Name: pick("shop", "login", "billing", "search", "mail", "wiki")},
		}
		r.Message = r.Rule + " on " + r.Resource.Name
		rows = append(rows, r)
	}
	return rows
}

// Hostile are texts that must be shown as they are.
var Hostile = []string{
	`<script>document.title='owned'</script>`,
	`"><img src=https://evil.example/x onerror=alert(1)>`,
	`'><svg/onload=fetch('https://evil.example/')>`,
	`javascript:alert(document.cookie)`,
	`{{.Session.Token}}`,
	"</textarea></title></pre><iframe src=https://evil.example></iframe>",
	"\x1b[2J\u202eevil",
}

// Full is the world of two teams, with findings of one Scan in storage.
func Full(t testing.TB) *World {
	t.Helper()
	w := New(t, Teams()...)
	scan := &executionv1.Scan{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "team-blue", Name: "nmap-shop"}, scan); err != nil {
		t.Fatal(err)
	}
	w.Store(scan, Finding("Outdated OpenSSL", "HIGH"), Finding("TLS 1.0 is offered", "MEDIUM"), Finding("Open port 22", "LOW"), Finding("excepted", "HIGH"))
	return w
}
