// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/csv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func TestTeams(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/teams"), "team-blue", "team-red", "The figures are those of the newest run of each scan.")
	w.Rows = consoletest.Rows(500)
	a := w.Get("/teams")
	has(t, a, "3 namespaces", "team-blue", "platform", "+")
	if strings.Index(a.Body, "/teams/team-blue") > strings.Index(a.Body, "/teams/platform") {
		t.Error("the worst namespace does not come first")
	}
	lacks(t, w.Get("/teams?only=failing"), "/teams/platform")
	lacks(t, w.Get("/teams?text=red"), "/teams/team-blue")
	has(t, w.Get("/teams?text=nobody"), "No namespace matches.")
	rows, err := csv.NewReader(strings.NewReader(w.Get("/teams/export").Body)).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][0] != "team-blue" {
		t.Errorf("the file has %v: %v", rows, err)
	}
	gone, last := w.Rows[0], new(metav1.NewTime(consoletest.Noon.AddDate(0, 0, -2)))
	gone.Namespace, gone.FixedAt, gone.Suppressed = "team-red", last, false
	w.Rows = append(w.Rows, gone)
	has(t, w.Get("/teams"), `data-name="fixed">−1</td>`)
	lacks(t, w.Get("/teams"), "checks\"")
	// Kyverno checks, since something passes; what scanners find is no check that failed. A team that passes nothing shows so.
	good, bad, worse := w.Rows[0], w.Rows[0], w.Rows[0]
	good.Namespace, good.Source, good.Result, good.Suppressed = "team-blue", "kyverno", "pass", false
	bad.Namespace, bad.Source, bad.Result, bad.Suppressed = "team-blue", "kyverno", "warn", false
	worse.Namespace, worse.Source, worse.Result, worse.Suppressed = "team-red", "kyverno", "fail", false
	w.Rows = append(w.Rows, good, bad, worse)
	has(t, w.Get("/teams"), `title="1 of 2 checks">50 %</td>`, `title="0 of 1 checks">0 %</td>`)
}

func TestOneTeam(t *testing.T) {
	own := &settingsv1alpha2.ScanSetting{}
	own.Namespace, own.Name = "team-blue", settingsv1alpha2.Name
	own.Status.InForce = &settingsv1alpha2.ScanSettingSpec{Limits: &settingsv1alpha2.Limits{}, Queue: &settingsv1alpha2.Queue{Order: new(settingsv1alpha2.OrderPriority)}}
	whole := &settingsv1alpha2.ClusterScanSetting{}
	whole.Name = settingsv1alpha2.Name
	whole.Status.InForce = &settingsv1alpha2.ClusterScanSettingSpec{Queue: &settingsv1alpha2.Queue{Order: new(settingsv1alpha2.OrderFIFO)}}
	w := consoletest.New(t, append(consoletest.Teams(), own, whole)...).Enter()
	w.Rows = consoletest.Rows(500)
	a := w.Get("/teams/team-blue")
	has(t, a, "Open findings, 90 days", "New and fixed, 90 days", "queue.order", string(settingsv1alpha2.OrderPriority), "the namespace")
	lacks(t, a, string(settingsv1alpha2.OrderFIFO))
	lacks(t, a, "Checks that passed")
	has(t, w.Get("/teams/platform"), string(settingsv1alpha2.OrderFIFO), "the cluster")
	passed := w.Rows[0]
	passed.Namespace, passed.Result, passed.Suppressed = "team-blue", "pass", false
	w.Rows = append(w.Rows, passed)
	has(t, w.Get("/teams/team-blue"), "Checks that passed, 90 days", "% on 2026-11-23.")
}

func TestSearch(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	has(t, w.Get("/search?q=shop"), "nmap-shop", "shop/api", "Findings", "All of them")
	has(t, w.Get("/search?q=nightly"), "/schedules/team-blue/nightly", "/scans/team-blue/nightly-1")
	has(t, w.Get("/search?q=ACCEPTED-TLS"), "/exceptions/team-blue/accepted-tls")
	has(t, w.Get("/search?q=team-b"), "/teams/team-blue")
	has(t, w.Get("/search?q=cve-2024-3001"), "Which images have CVE-2024-3001", "/findings?policy=CVE-2024-3001")
	has(t, w.Get("/search?q=it%27s%5C"), "Nothing is called that")
	has(t, w.Get("/search"), "What do you look for?")
	w.Rows = nil
	has(t, w.Get("/search?q=openssl"), "Look through the newest runs")
	w.Denied = []string{"list scheduledscans"}
	has(t, w.Get("/search?q=shop"), "You may not list scheduledscans", "nmap-shop")
}
