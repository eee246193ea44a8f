// SPDX-License-Identifier: Apache-2.0

package parsers_test

import (
	"os"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

// reaches lists, by result type, what raw results tell of what was reached. A raw result is a file, or the text itself.
// Parsers may have their cases in their own folders instead.
var reaches = map[string][]struct {
	raw     string
	status  outcome.Status
	message string
}{
	"checkov-json": {
		{"checkov/testdata/terraform.raw.json", outcome.True, "2 resources, 4 checks"},
		{"checkov/testdata/nothing-checked.raw.json", outcome.False, "0 resources were checked"},
		{"checkov/testdata/null-results.raw.json", outcome.Unknown, "the report has no summary"},
	},
	"cyclonedx": {
		{"cyclonedx/testdata/npm.raw.json", outcome.True, "components"},
		{`{"bomFormat":"CycloneDX","specVersion":"1.6","vulnerabilities":[{"id":"CVE-2024-1"}]}`, outcome.True, "0 services and 1 vulnerability"},
		{"cyclonedx/testdata/empty-document.raw.json", outcome.False, "0 components"},
		{`{"bomFormat":"CycloneDX","metadata":{"component":{"name":"shop"}},"components":[]}`, outcome.Unknown, "about shop"},
	},
	"ffuf-json": {
		{"testdata/fixtures/ffuf/ffuf-results.raw.json", outcome.True, "the server answered: "},
		{"testdata/fixtures/ffuf/zeroFindings.raw.json", outcome.Unknown, "does not report whether the server answered"},
		{"testdata/fixtures/ffuf/empty.raw.json", outcome.Unknown, "no results"},
	},
	"git-repo-scanner-json": {
		{"gitreposcanner/testdata/repositories.raw.json", outcome.True, "listed"},
		{"testdata/fixtures/git-repo-scanner/empty-findings.raw.json", outcome.Unknown, "no repository"},
	},
	"gitleaks-json": {
		{"testdata/fixtures/gitleaks/test-report.raw.json", outcome.True, "something was looked through"},
		{"testdata/fixtures/gitleaks/test-null-report.raw.json", outcome.Unknown, "does not report what it has looked through"},
	},
	"grype-json": {
		{"grype/testdata/image.raw.json", outcome.True, "packages were looked at"},
		{"grype/testdata/none.raw.json", outcome.True, "the image was read: registry.example.com/shop:1.4"},
		{`{"matches":[],"source":{"type":"directory","target":"/src"}}`, outcome.Unknown, "does not report whether there are packages"},
	},
	"junit-xml": {
		{"junit/testdata/gitleaks.raw.xml", outcome.True, "2 of 2 tests ran"},
		{"junit/testdata/states.raw.xml", outcome.True, "5 of 6 tests ran"},
		{`<testsuite><testcase name="a"><skipped/><skipped/></testcase></testsuite>`, outcome.False, "0 of 1 tests ran"},
		{"junit/testdata/gitleaks-clean.raw.xml", outcome.Unknown, "holds no tests"},
	},
	"kube-hunter-json": {
		{"kubehunter/testdata/report.raw.json", outcome.True, "were found"},
		{"kubehunter/testdata/empty.raw.json", outcome.False, "0 nodes and 0 services were found"},
		{"testdata/fixtures/kube-hunter/test-empty-report.raw.json", outcome.Unknown, "neither nodes nor services"},
	},
	"kubescape-json": {
		{"kubescape/testdata/cluster.raw.json", outcome.True, "6 resources were looked at"},
		{"kubescape/testdata/null-results.raw.json", outcome.False, "0 resources were looked at"},
	},
	"ncrack-xml": {
		{"testdata/fixtures/ncrack/ncrack_with_results.raw.xml", outcome.True, "services accepted credentials"},
		{"ncrack/testdata/closed.raw.xml", outcome.Unknown, "does not report which answered"},
	},
	"nikto-json": {
		{"testdata/fixtures/nikto/docs.securecodebox.io.raw.json", outcome.True, "1 web server answered"},
		{"testdata/fixtures/nikto/empty-report.raw.json", outcome.False, "no web server answered"},
		{"nikto/testdata/no-vulnerabilities.raw.json", outcome.Unknown, "nothing that came from there"},
		{"nikto/testdata/empty.raw.json", outcome.Unknown, "the report is empty"},
	},
	"nmap-xml": {
		{"testdata/fixtures/nmap/localhost.raw.xml", outcome.True, "1 of 1 hosts answered"},
		{"nmap/testdata/closed.raw.xml", outcome.True, "1 of 1 hosts answered"},
		{"nmap/testdata/closed-unasked.raw.xml", outcome.True, "1 of 1 hosts answered"},
		{"nmap/testdata/unresolved.raw.xml", outcome.False, "0 hosts were scanned: no target was given, or none could be resolved"},
		{"nmap/testdata/none-up.raw.xml", outcome.False, "0 of 1 hosts answered"},
		{"nmap/testdata/silent.raw.xml", outcome.False, "0 of 1 hosts answered on any port"},
		{"nmap/testdata/silent-many.raw.xml", outcome.False, "0 of 1 hosts answered on any port"},
		{"nmap/testdata/list.raw.xml", outcome.Unknown, "nothing was sent to 2 of 2 hosts"},
		{"nmap/testdata/unasked.raw.xml", outcome.Unknown, "nothing was sent to 1 of 1 hosts"},
		{"testdata/fixtures/nmap/no-ports.raw.xml", outcome.True, "1 of 1 hosts answered"},
		{"nmap/testdata/no-hosts.raw.xml", outcome.Unknown, "does not say how many hosts"},
	},
	"nuclei-json": {
		{"testdata/fixtures/nuclei/log4shell.raw.jsonl", outcome.True, "targets answered"},
		{"testdata/fixtures/nuclei/empty-test.raw.jsonl", outcome.Unknown, "does not report whether the targets answered"},
		{`{"info":{"severity":"info"},"matcher-status":false}`, outcome.Unknown, "no results"},
	},
	"osv-scanner-json": {
		{"osvscanner/testdata/npm.raw.json", outcome.True, "looked at"},
		{"osvscanner/testdata/clean.raw.json", outcome.Unknown, "does not report what it has looked at"},
	},
	"registry-json": {
		{"registry/testdata/shop.raw.json", outcome.True, "1 of 3 images were scanned"},
		{"registry/testdata/none-scanned.raw.json", outcome.False, "none of 1 image was scanned"},
		{"registry/testdata/no-images.raw.json", outcome.Unknown, "there are no images"},
	},
	"sarif": {
		{"sarif/testdata/eslint.raw.json", outcome.True, "1 of 1 runs looked at something"},
		{
			`{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[],"artifacts":[{"location":{"uri":"a.go"}}]}]}`,
			outcome.True, "1 of 1 runs",
		},
		{"sarif/testdata/gitleaks-clean.raw.json", outcome.Unknown, "gitleaks has no results"},
		{"sarif/testdata/no-runs.raw.json", outcome.Unknown, "no runs"},
	},
	"sbom-cyclonedx": {
		{"{}", outcome.Unknown, "the SBOM is not looked at"},
	},
	"screenshot-png": {
		{"\x89PNG", outcome.True, "a screenshot was taken"},
		{"screenshooter/testdata/empty.raw.png", outcome.False, "no screenshot could be taken"},
	},
	"semgrep-json": {
		{"testdata/fixtures/semgrep/python-injection.raw.json", outcome.True, "scanned"},
		{`{"results":[],"errors":[],"paths":{"scanned":["a.py","b.py"]}}`, outcome.True, "2 files were scanned"},
		{`{"results":[],"errors":[],"paths":{"scanned":[]}}`, outcome.False, "0 files were scanned"},
		{"semgrep/testdata/no-results.raw.json", outcome.Unknown, "does not list the files"},
	},
	"spdx": {
		{"spdx/testdata/npm.raw.json", outcome.True, "packages"},
		{"spdx/testdata/minimal.raw.json", outcome.False, "0 packages and 0 files"},
		{`{"spdxVersion":"SPDX-2.3","packages":[{"name":"root"}]}`, outcome.Unknown, "one package"},
	},
	"ssh-audit-json": {
		{"testdata/fixtures/ssh-audit/dummy-ssh.raw.json", outcome.True, "the SSH server answered"},
		{`{"target":"h:22","banner":{"raw":"","protocol":null},"recommendations":{}}`, outcome.False, "no SSH server answered"},
		{"testdata/fixtures/ssh-audit/test-empty-report.raw.json", outcome.Unknown, "names no target"},
	},
	"sslyze-json": {
		{"testdata/fixtures/sslyze/www.securecodebox.io.raw.json", outcome.True, "1 of 1 servers answered"},
		{"testdata/fixtures/sslyze/unavailable-host.raw.json", outcome.False, "0 of 1 servers answered"},
		{`{"server_scan_results":[],"invalid_server_strings":[{"server_string":"gone.invalid"}]}`, outcome.False, "0 of 1 servers could be resolved"},
		{
			`{"server_scan_results":[{"connectivity_status":"ERROR"},{"connectivity_status":"COMPLETED"}],"invalid_server_strings":[{}]}`,
			outcome.True, "1 of 3 servers answered",
		},
		{"testdata/fixtures/sslyze/test-empty-report.raw.json", outcome.Unknown, "no list of servers"},
	},
	"subfinder-json": {
		{"testdata/fixtures/subfinder/passive_scan_without_ip_example.com.raw.jsonl", outcome.True, "sources answered"},
		{"testdata/fixtures/subfinder/empty.raw.jsonl", outcome.Unknown, "does not report whether its sources answered"},
	},
	"test-txt": {
		{"testdata/fixtures/test-scan/valid.raw.txt", outcome.Unknown, "reaches for nothing"},
	},
	"testssl-json": {
		{"testssl/testdata/flat.raw.json", outcome.True, "tests were done"},
		{
			`[{"id":"scanTime","ip":"h/127.0.0.1","port":"443","severity":"WARN","finding":"Scan interrupted"}]`,
			outcome.False, "no test could be done: scanTime: Scan interrupted",
		},
		{"testssl/testdata/no-entries.raw.json", outcome.Unknown, "holds no tests"},
	},
	"trivy-json": {
		{"testdata/fixtures/trivy/juice-shop-v12.10.2.raw.json", outcome.True, "the image was read: bkimminich/juice-shop:v12.10.2"},
		{"testdata/fixtures/trivy/juice-shop-v12.10.2-no-results.raw.json", outcome.True, "the image was read"},
		{"testdata/fixtures/trivy/trivy--k8s-scan-results.raw.json", outcome.True, "of the cluster"},
		{`{"ArtifactName":".","ArtifactType":"filesystem","Results":[{"Target":"go.mod"}]}`, outcome.True, "1 target was looked at"},
		{`{"ArtifactName":".","ArtifactType":"filesystem"}`, outcome.Unknown, "nothing that it looked at in ."},
		{"testdata/fixtures/trivy/test-empty-report.raw.json", outcome.Unknown, "names no artifact"},
	},
	"trufflehog-jsonl": {
		{"trufflehog/testdata/commit-link.raw.jsonl", outcome.True, "1 secret"},
		{"trufflehog/testdata/empty.raw.jsonl", outcome.Unknown, "does not report what it has looked through"},
	},
	"whatweb-json": {
		{"testdata/fixtures/whatweb/securecodebox.io.raw.json", outcome.True, "targets answered"},
		{"whatweb/testdata/closed.raw.json", outcome.False, "no target answered"},
		{"whatweb/testdata/empty.raw.json", outcome.Unknown, "the log is empty"},
	},
	"wpscan-json": {
		{"testdata/fixtures/wpscan/example-latest.raw.json", outcome.True, "the site answered"},
		{
			`{"scan_aborted":"The url supplied 'http://gone.invalid/' seems to be down (Couldn't resolve host name)"}`,
			outcome.False, "WPScan gave up: The url supplied 'http://gone.invalid/' seems to be down (Couldn't resolve host name)",
		},
		{"testdata/fixtures/wpscan/empty-localhost.raw.json", outcome.Unknown, "names no target"},
	},
	"zap-xml": {
		{"testdata/fixtures/zap-automation-framework/juice-shop.raw.xml", outcome.True, "1 site, "},
		{"testdata/fixtures/zap-automation-framework/not-found.raw.xml", outcome.Unknown, "does not report whether a site answered"},
	},
}

// TestReach holds every parser to what it tells of what was reached.
func TestReach(t *testing.T) {
	for _, p := range parsers.All() {
		if p.Reach == "" {
			t.Errorf("%s does not say for people what tells of reach", p.ResultType)
		}
		for _, tt := range reaches[p.ResultType] {
			name := p.ResultType + "/" + tt.raw
			raw := []byte(tt.raw)
			if strings.Contains(tt.raw, "/testdata/") || strings.HasPrefix(tt.raw, "testdata/") {
				var err error
				if raw, err = os.ReadFile(tt.raw); err != nil {
					t.Fatal(err)
				}
			}
			scan := &sdk.Scan{Spec: sdk.ScanSpec{Parameters: []string{"target"}}}
			got, err := sdktest.Reach(t, p, sdktest.Case{Raw: raw, Scan: scan})
			if err != nil || got.Status != tt.status || !strings.Contains(got.Message, tt.message) {
				t.Errorf("%.150s: want %s %q, got %s %q (%v)", name, tt.status, tt.message, got.Status, got.Message, err)
			}
		}
	}
}
