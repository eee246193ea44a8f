// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// wantReached holds a Scan to what its condition tells of what was reached.
func wantReached(s *executionv1.Scan, status metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	got := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionTargetReached)
	if got == nil || got.Status != status || got.Reason != reason || got.Message != message {
		Fail(fmt.Sprintf("scan %s: want %s %s %q, got %+v", s.Name, status, reason, message, got))
	}
}

var _ = Describe("A target that is not reached", Label("reached"), func() {
	// Real scanners of a name that does not exist, of a host and of a site that do not answer end well and
	// without findings, and nowhere read as green.
	It("is nowhere read as green", func(ctx SpecContext) {
		ns, members := team(ctx)
		aggregated(ctx, members)
		editor := atTerminal(ns, ns+"-edit")
		chart(ctx, "nmap", ns, scanner(ctx, "scanner-nmap"))
		chart(ctx, "whatweb", ns, scanner(ctx, "scanner-whatweb"))
		closed, _ := closedPort(ctx)
		port := strconv.Itoa(closed)

		By("Unresolved", func() {
			const says = "nothing was reached: 0 hosts were scanned: no target was given, or none could be resolved"
			editor.wants(ctx, 0, []string{"scan gone is Done after ", says}, "scan", "nmap", "--name", "gone", "--wait", "--", "-p", "80", "doesnotexist.invalid")
			editor.wants(ctx, 4, []string{says, "--allow-unreached lets it pass"}, "wait", "gone", "--fail-on", "low")
			editor.wants(ctx, 0, []string{says}, "wait", "gone", "--fail-on", "low", "--allow-unreached")
			editor.wants(ctx, 4, []string{says, "no findings"}, "findings", "gone", "--fail-on", "low")
			editor.wants(ctx, 0, []string{says}, "findings", "gone", "--fail-on", "low", "--allow-unreached")
			editor.wants(ctx, 0, []string{`errors="1"`}, "findings", "gone", "-o", "junit")
			editor.wants(ctx, 0, []string{"Reached:     nothing: 0 hosts were scanned"}, "describe", "gone")
		})
		By("HostDown", func() {
			// An address for documentation, which nobody has.
			editor.wants(ctx, 4, []string{"nothing was reached: 0 of 1 hosts answered"}, "scan", "nmap", "--name", "down", "--fail-on", "low", "--", "-n", "-6", "-p", "80", "2001:db8::1")
			editor.wants(ctx, 0, []string{"nothing was reached: 0 of 1 hosts answered"}, "scan", "nmap", "--name", "may-be-down", "--fail-on", "low", "--allow-unreached", "--",
				"-n", "-6", "-p", "80", "2001:db8::1")
		})
		By("SiteDown", func() {
			s := done(ctx, scans.New(ns, "site-down", "whatweb", "http://127.0.0.1:"+port))
			wantReached(s, metav1.ConditionFalse, executionv1.ReasonNothingReached, "no target answered")
		})
		By("PortClosed", func() { // the host has answered
			s := done(ctx, scans.New(ns, "closed", "nmap", "-n", "-p", port, "127.0.0.1"))
			wantReached(s, metav1.ConditionTrue, executionv1.ReasonTargetReached, "1 of 1 hosts answered")
			editor.wants(ctx, 0, []string{"is Done"}, "wait", "closed", "--fail-on", "low")
		})
	})

	It("is a finding where the chart's values ask for one", func(ctx SpecContext) {
		ns := namespace(ctx)
		values := scanner(ctx, "scanner-nmap")
		values["parser"] = map[string]any{"env": []any{map[string]any{"name": "FINDING_WHEN_UNREACHED", "value": "true"}}}
		chart(ctx, "nmap", ns, values)
		s := done(ctx, scans.New(ns, "gone", "nmap", "-p", "80", "doesnotexist.invalid"))
		if n := s.Status.Findings.FindingCategories["Nothing Reached"]; n != 1 {
			Fail(fmt.Sprintf("findings %+v", s.Status.Findings))
		}
	})
})
