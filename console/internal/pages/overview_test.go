// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func deployment(chart, name, image string, want, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "scanyard-system", Name: name, Labels: map[string]string{"app.kubernetes.io/name": chart}}}
	d.Spec.Replicas, d.Status.ReadyReplicas = &want, ready
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return d
}

func TestPartsThatNeedAHand(t *testing.T) {
	w := consoletest.New(t, append(consoletest.Teams(),
		deployment("scanyard", "operator", "docker.io/scanyard/operator:0.1.0", 1, 0),
		deployment("registry", "registry-worker", "mirror.example:5000/x/registry-worker@sha256:00", 3, 1),
		deployment("reports", "reports", "docker.io/scanyard/reports-apiserver:0.1.0", 2, 2),
		deployment("forwarding", "forwarder", "docker.io/scanyard/forwarder", 0, 0),
		deployment("registry", "foreign-registry", "docker.io/library/registry:2", 1, 0),
	)...).Enter()
	overview := w.Get("/")
	has(t, overview, "Parts that need a hand", "The operator", "No scan starts or goes on.", "kubectl -n scanyard-system describe deployment operator",
		"The worker of registries", "1 of 3 ready", "The forwarder", "switched off")
	lacks(t, overview, "The reports API server", "foreign-registry")
	w.Denied = []string{"list deployments"}
	denied := w.Get("/")
	has(t, denied, "Running and waiting")
	lacks(t, denied, "The operator", "deployments")
}

// What the reports API knows of targets is ranked, however many findings that are not high stand beside them.
func TestTargetsWithMostHighFindings(t *testing.T) {
	w := consoletest.Full(t).Enter()
	row := func(severity, target string) reportsv1alpha1.FindingRow {
		return reportsv1alpha1.FindingRow{Namespace: "team-blue", Report: "r", Severity: severity, Result: "fail", Rule: "x", Resource: &reportsv1alpha1.ResourceRef{Name: target}}
	}
	w.Rows = []reportsv1alpha1.FindingRow{row("critical", "shop.example"), row("low", "wiki.example"), row("high", "sha256:0123456789abcdef0123")}
	overview := w.Get("/")
	has(t, overview, "/findings?severity=critical&amp;target=shop.example", ">image 0123456789ab</a>", "image=sha256%3A0123456789abcdef0123")
	lacks(t, overview, "wiki.example")
}

// TestNewAndFixed draws what came and went: a day counts what was seen first on it, and what was fixed on it.
func TestNewAndFixed(t *testing.T) {
	w := consoletest.Full(t).Enter()
	days := func(n int) *metav1.Time { return new(metav1.NewTime(consoletest.Noon.AddDate(0, 0, -n))) }
	row := reportsv1alpha1.FindingRow{Namespace: "team-blue", Report: "r", Severity: "high", Result: "fail", Rule: "x", FirstSeen: days(20)}
	fixed, old := row, row
	fixed.FixedAt, old.FirstSeen = days(3), days(100)
	w.Rows = []reportsv1alpha1.FindingRow{row, fixed, old}
	has(t, w.Get("/"), "New and fixed, 90 days", "2 new and 1 fixed from 2026-08-26 to 2026-11-23.", "<td>2026-11-03</td><td class=\"r\">2</td><td class=\"r\">0</td>",
		"<td>2026-11-20</td><td class=\"r\">0</td><td class=\"r\">1</td>")
	w.Rows = []reportsv1alpha1.FindingRow{old}
	overview := w.Get("/")
	has(t, overview, "Open findings, 90 days")
	lacks(t, overview, "New and fixed")
}
