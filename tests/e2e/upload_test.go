// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/tests/scans"
)

var _ = Describe("Uploads of results", Label("results"), func() {
	It("go through the operator when the Scan takes longer than its upload URL lives", defect(60), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "long", "sleep 5; "+quick)
		create(ctx, s)
		// The lurker's log goes with its pod: read it as soon as the scanner's Job is done.
		until(ctx, s, "be scanned", func(s *executionv1.Scan) bool {
			return s.Status.State != "" && s.Status.State != executionv1.ScanStateScanning
		})
		pods := podsOf(ctx, ns, ofJob(jobsOf(s)["scanner"]))
		Expect(pods).To(HaveLen(1), "pods of the scanner")
		log, err := w.kube.CoreV1().Pods(ns).GetLogs(pods[0].Name, &corev1.PodLogOptions{Container: "lurker"}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		if !strings.Contains(string(log), "has expired") || strings.Contains(string(log), "X-Amz-Signature") {
			Fail(fmt.Sprintf("the lurker did not go through the endpoint, or logs a URL's signature:\n%s", log))
		}
		wantJobs(wantDone(ctx, s), "scanner", "parser")
	})

	// The first attempt leaves half a file and
	// fails, the second one writes the whole file.
	It("wait for the attempt of a scanner that is whole", defect(61), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		script := fmt.Sprintf("cd /home/securecodebox; if test ! -e tried; then touch tried; printf '%%s' '%s' >result; sleep 1; exit 1; fi; sleep 1; printf '%%s' '%s' >result",
			nmapXML("80"), nmapXML("80", "443", "8080"))
		got := done(ctx, shellScan(ns, "second-try", script))
		if n := len(findings(ctx, got)); n != 4 {
			Fail(fmt.Sprintf("%d findings, want the 4 of the second attempt", n))
		}
		wantStats(got, findings(ctx, got))
	})

	It("end the Scan where a scanner has left no file", func(ctx SpecContext) {
		ns := prepared(ctx)
		got := errored(ctx, shellScan(ns, "nothing-written", "true"), executionv1.ReasonScannerFailed, resultPath, "extractResults.location")
		wantJobs(got, "scanner")
	})

	It("follow no link that a hostile scanner leaves as its result", func(ctx SpecContext) {
		ns := prepared(ctx)
		got := errored(ctx, shellScan(ns, "link", "ln -s /etc/passwd "+resultPath), executionv1.ReasonScannerFailed, resultPath)
		Expect(resultsOf(ctx, got)).To(BeEmpty(), "stored")
	})

	// Raw results that no parser can read end in a condition that says
	// what is wrong, and never take more memory than the parser's limit (200 MiB).
	Describe("of hostile scanners end in a condition that says what is wrong, within the parser's memory", func() {
		full := nmapXML("80", "443")
		cases := map[string]struct{ resultType, script, says string }{
			"Truncated":    {"nmap-xml", "printf '%s' '" + full[:len(full)/2] + "'", "the input ends before the document does"},
			"WrongType":    {"nmap-xml", `printf '%s' '{"not": "xml"}'`, "outside of the root element"},
			"EntityBomb":   {"nmap-xml", "printf '%s' '" + entityBomb() + "'", "unknown entity"},
			"DeeplyNested": {"nmap-xml", "{ printf '<nmaprun>'; head -c 3000000 /dev/zero | sed 's/\\x00/<a>/g'; }", "deep"},
			"Endless":      {"nmap-xml", "{ printf '<nmaprun><host><x y=\"'; head -c 400000000 /dev/zero | tr '\\0' 'x'; }", "large"},
			"NotAList":     {"gitleaks-json", "head -c 5000000 /dev/zero | tr '\\0' '['", "max depth"},
			"Binary":       {"gitleaks-json", "{ printf '\\177ELF'; head -c 100000 /dev/urandom; }", "is not JSON"},
		}
		for name, tc := range inOrder(cases) {
			It(name, func(ctx SpecContext) {
				ns := namespace(ctx)
				create(ctx, shellType(ns, tc.resultType), parser(ns, tc.resultType))
				got := errored(ctx, shellScan(ns, "hostile", tc.script+" >"+resultPath), executionv1.ReasonParserFailed, tc.says)
				GinkgoWriter.Println(scans.Ready(got).Message)
				if m := scans.Ready(got).Message; strings.Contains(m, "OOMKilled") || !strings.Contains(m, fmt.Sprintf("code %d:", exitcode.InvalidInput)) {
					Fail(fmt.Sprintf("the parser did not end by itself: %s", m))
				}
				wantJobs(got, "scanner", "parser")
			})
		}
	})
})

// entityBomb is a small XML document that would be 3^29 words long if its entities
// were expanded.
func entityBomb() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "ha">`)
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, `<!ENTITY a%d "&a%d;&a%d;&a%d;">`, i, i-1, i-1, i-1)
	}
	b.WriteString(`]><nmaprun>&a29;</nmaprun>`)
	return b.String()
}
