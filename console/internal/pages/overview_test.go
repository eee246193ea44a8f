// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
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

// A report need not say what it is about, as that of the demo does not: its findings have a line of their own, and it leads to them.
func TestHighFindingsWithoutTarget(t *testing.T) {
	w := consoletest.Full(t).Enter()
	bare := reportsv1alpha1.FindingRow{Namespace: "team-blue", Report: "r", Severity: "critical", Result: "fail", Policy: "CVE-2024-3094"}
	named := bare
	named.Policy, named.Category, named.Resource = "CVE-2024-1", "Library", &reportsv1alpha1.ResourceRef{Name: "shop.example"}
	w.Rows = []reportsv1alpha1.FindingRow{bare, named}
	has(t, w.Get("/"), ">no target named</a>", ">no category named</a>", "/findings?severity=critical&amp;target=%28none%29&amp;severity=high")
	for _, field := range []string{"target", "category"} {
		a := w.Get("/findings?" + field + "=%28none%29&severity=critical&severity=high")
		has(t, a, ">CVE-2024-3094</a>", "no "+field+" named ✕", `value="(none)" checked`)
		lacks(t, a, ">CVE-2024-1</a>")
	}
}

func TestExceptionsThatEndSoon(t *testing.T) {
	ending := func(spec *settingsv1alpha2.ExceptionSpec, days int) {
		spec.Status, spec.Reason = settingsv1alpha2.ExceptionAccepted, "Fixed by the next release."
		spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Fingerprints: []string{"x"}}}
		spec.ExpiresAt = new(metav1.NewTime(consoletest.Noon.AddDate(0, 0, days)))
	}
	own, late, all := &settingsv1alpha2.FindingException{}, &settingsv1alpha2.FindingException{}, &settingsv1alpha2.ClusterFindingException{}
	own.Namespace, own.Name, late.Namespace, late.Name, all.Name = "team-blue", "own-ends", "team-blue", "ends-late", "cluster-ends"
	ending(&own.Spec.ExceptionSpec, 9)
	ending(&late.Spec.ExceptionSpec, 15)
	ending(&all.Spec.ExceptionSpec, 3)
	w := consoletest.New(t, append(consoletest.Teams(), own, late, all)...).Enter()
	overview := w.Get("/")
	has(t, overview, "/exceptions/team-blue/own-ends", "/clusterexceptions/cluster-ends", "of the cluster")
	lacks(t, overview, "ends-late")
	w.Denied = []string{"list clusterfindingexceptions"}
	has(t, w.Get("/"), "You may not list clusterfindingexceptions", "/exceptions/team-blue/own-ends")
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
