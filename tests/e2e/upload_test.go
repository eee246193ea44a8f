// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// TestDefect60LongScan takes longer than its upload URL lives.
func TestDefect60LongScan(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "long", "sleep 5; "+quick)
	create(t, s)
	// The lurker's log goes with its pod: read it as soon as the scanner's Job is done.
	until(t, s, "be scanned", func(s *executionv1.Scan) bool {
		return s.Status.State != "" && s.Status.State != executionv1.ScanStateScanning
	})
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{"job-name": jobsOf(s)["scanner"].Name}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d scanner pods: %v", len(pods.Items), err)
	}
	log, err := w.kube.CoreV1().Pods(ns).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "lurker"}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "has expired") || strings.Contains(string(log), "X-Amz-Signature") {
		t.Errorf("the lurker did not go through the endpoint, or logs a URL's signature:\n%s", log)
	}
	wantJobs(t, wantDone(t, s), "scanner", "parser")
}

// TestDefect61FailedAttemptIsNotUploaded: the first attempt leaves half a file and
// fails, the second one writes the whole file.
func TestDefect61FailedAttemptIsNotUploaded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	script := fmt.Sprintf("cd /home/securecodebox; if test ! -e tried; then touch tried; printf '%%s' '%s' >result; sleep 1; exit 1; fi; sleep 1; printf '%%s' '%s' >result",
		nmapXML("80"), nmapXML("80", "443", "8080"))
	got := done(t, shellScan(ns, "second-try", script))
	if n := len(findings(t, got)); n != 4 {
		t.Errorf("%d findings, want the 4 of the second attempt", n)
	}
	wantStats(t, got, findings(t, got))
}

// TestMissingResult: a scanner that ends well without a file.
func TestMissingResult(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	got := errored(t, shellScan(ns, "nothing-written", "true"), executionv1.ReasonScannerFailed, resultPath, "extractResults.location")
	wantJobs(t, got, "scanner")
}

// TestResultIsALink: a hostile scanner points its result at the pod's token.
func TestResultIsALink(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	got := errored(t, shellScan(ns, "link", "ln -s /etc/passwd "+resultPath), executionv1.ReasonScannerFailed, resultPath)
	if keys := stored(t, got); len(keys) > 0 {
		t.Errorf("stored %v", keys)
	}
}

// TestHostileResults: raw results that no parser can read end in a condition that says
// what is wrong, and never take more memory than the parser's limit (200 MiB).
func TestHostileResults(t *testing.T) {
	t.Parallel()
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
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			create(t, shellType(ns, tc.resultType), parser(ns, tc.resultType))
			got := errored(t, shellScan(ns, "hostile", tc.script+" >"+resultPath), executionv1.ReasonParserFailed, tc.says)
			t.Log(scans.Ready(got).Message)
			if m := scans.Ready(got).Message; strings.Contains(m, "OOMKilled") || !strings.Contains(m, "code 1") {
				t.Errorf("the parser did not end by itself: %s", m)
			}
			wantJobs(t, got, "scanner", "parser")
		})
	}
}

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
