// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
)

// rulesOf returns the rules of a rendering, of either kind.
func rulesOf(t *testing.T, rendering string) []cascadingv1.CascadingRule {
	t.Helper()
	return objectsOf[cascadingv1.CascadingRule](t, rendering, "CascadingRule", "ClusterCascadingRule")
}

// cascade is what the contract says about one rule. Matches are written as in
// "port 22", "service http*", "service ftp, tunnel ssl", all of an open port, or
// "subdomain"; H and P stand for the host and the port of the finding.
type cascade struct {
	chart, invasive, intensive string
	matches                    []string
	scanType, parameters       string
}

const words = "-v -d10 -U /ncrack/users.txt -P /ncrack/passwords.txt -p "

const plan = "-autorun /home/securecodebox/scb-automation/automation.yaml"

// cascades are the 29 rules by name.
var cascades = map[string]cascade{
	"ffuf-http":                         {"ffuf", "non-invasive", "medium", []string{"service http*"}, "ffuf", "-u H/FUZZ -w /config/wordlist.txt"},
	"kubernetes-control-plane":          {"kube-hunter", "non-invasive", "light", []string{"port 6443", "port 2379"}, "kube-hunter", "--remote H"},
	"kubernetes-node":                   {"kube-hunter", "non-invasive", "light", []string{"port 10250"}, "kube-hunter", "--remote H"},
	"ncrack-ftp":                        {"ncrack", "invasive", "high", []string{"port 21", "service ftp"}, "ncrack", words + "ftp:P H"},
	"ncrack-mssql":                      {"ncrack", "invasive", "high", []string{"port 1433", "service ms-sql-s"}, "ncrack", words + "mssql:P H"},
	"ncrack-mysql":                      {"ncrack", "invasive", "high", []string{"port 3306", "service mysql"}, "ncrack", words + "mysql:P H"},
	"ncrack-postgresql":                 {"ncrack", "invasive", "high", []string{"port 5432", "service postgresql"}, "ncrack", words + "psql:P H"},
	"ncrack-rdp":                        {"ncrack", "invasive", "high", []string{"port 3389", "service ms-wbt-server"}, "ncrack", words + "ms-wbt-server:P H"},
	"ncrack-smb":                        {"ncrack", "invasive", "high", []string{"port 445", "port 139", "service microsoft-ds"}, "ncrack", words + "smb:P H"},
	"ncrack-ssh":                        {"ncrack", "invasive", "high", []string{"port 22", "service ssh"}, "ncrack", words + "ssh:P H"},
	"ncrack-telnet":                     {"ncrack", "invasive", "high", []string{"port 23", "service telnet"}, "ncrack", words + "telnet:P H"},
	"ncrack-vnc":                        {"ncrack", "invasive", "high", []string{"port 5801", "port 5900", "port 5901", "port 6001", "service vnc"}, "ncrack", words + "vnc:P H"},
	"nikto-http":                        {"nikto", "non-invasive", "medium", []string{"service http*"}, "nikto", "-host H -port P -Tuning 1,2,3,5,7,b"},
	"nmap-hostscan":                     {"nmap", "non-invasive", "light", []string{"subdomain"}, "nmap", "-Pn {{location}}"},
	"nmap-smb":                          {"nmap", "non-invasive", "light", []string{"port 445", "service microsoft-ds", "service netbios-ssn"}, "nmap", "-Pn -pP --script smb-protocols H"},
	"nuclei-subdomain-scan-light-http":  {"nuclei", "non-invasive", "light", []string{"port 80", "service http", "service http-*"}, "nuclei", "-u http://H:P"},
	"nuclei-subdomain-scan-light-https": {"nuclei", "non-invasive", "light", []string{"port 443", "service https", "service https*"}, "nuclei", "-u https://H:P"},
	"screenshooter-http":                {"screenshooter", "non-invasive", "light", []string{"service http", "service http-*"}, "screenshooter", "http://H:P"},
	"screenshooter-https":               {"screenshooter", "non-invasive", "light", []string{"service https*"}, "screenshooter", "https://H:P"},
	"ssh-audit":                         {"ssh-audit", "non-invasive", "light", []string{"port 22", "service ssh"}, "ssh-audit", "H --port=P"},
	"ftps-tls-scan":                     {"sslyze", "non-invasive", "light", []string{"port 990", "service ftps", "service ftp, tunnel ssl"}, "sslyze", "--mozilla_config=modern H:P"},
	"https-tls-scan":                    {"sslyze", "non-invasive", "light", []string{"port 443", "port 8443", "service https*", "service http*, tunnel ssl"}, "sslyze", "--mozilla_config=intermediate H:P"},
	"ldaps-tls-scan":                    {"sslyze", "non-invasive", "light", []string{"port 636", "service ldapssl"}, "sslyze", "--mozilla_config=intermediate H:P"},
	"smtps-tls-scan":                    {"sslyze", "non-invasive", "light", []string{"port 465", "service smtps", "service smtp, tunnel ssl"}, "sslyze", "--mozilla_config=intermediate H:P"},
	"pop3s-tls-scan":                    {"sslyze", "non-invasive", "light", []string{"port 995", "service pop3s", "service pop3, tunnel ssl"}, "sslyze", "--mozilla_config=intermediate H:P"},
	"imaps-tls-scan":                    {"sslyze", "non-invasive", "light", []string{"port 993", "service imaps", "service imap, tunnel ssl"}, "sslyze", "--mozilla_config=intermediate H:P"},
	"whatweb-subdomain-scan":            {"whatweb", "non-invasive", "light", []string{"subdomain"}, "whatweb", "{{location}}"},
	"zap-http":                          {"zap-automation-framework", "non-invasive", "medium", []string{"service http", "service http-*"}, "zap-automation-framework", plan},
	"zap-https":                         {"zap-automation-framework", "non-invasive", "medium", []string{"service https*"}, "zap-automation-framework", plan},
}

// match writes a condition as cascade.matches has it.
func match(m cascadingv1.MatchesRule) string {
	if m.Name != "" || m.Description != "" || m.Location != "" || m.Severity != "" {
		return fmt.Sprintf("%+v", m)
	}
	if m.Category == "Subdomain" && m.OsiLayer == "NETWORK" && len(m.Attributes) == 0 {
		return "subdomain"
	}
	state := m.Attributes["state"]
	if m.Category != "Open Port" || m.OsiLayer != "" || state.String() != "open" {
		return fmt.Sprintf("%+v", m)
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m.Attributes)) {
		if key != "state" {
			value := m.Attributes[key]
			parts = append(parts, key+" "+value.String())
		}
	}
	return strings.Join(parts, ", ")
}

var short = strings.NewReplacer("{{$.hostOrIP}}", "H", "{{attributes.port}}", "P")

// shorten does not touch the P of nmap's own -pP, which has no braces.
func shorten(parameters []string) string { return short.Replace(strings.Join(parameters, " ")) }

// TestRulesKeepTheContract: 29 rules, in each namespace and, but for ffuf's, for all.
func TestRulesKeepTheContract(t *testing.T) {
	if len(cascades) != 29 {
		t.Fatalf("the table has %d rules, want 29", len(cascades))
	}
	for _, suffix := range []string{"", "-cluster"} {
		seen := 0
		for _, chart := range slices.Compact(slices.Sorted(func(yield func(string) bool) {
			for _, c := range cascades {
				if !yield(c.chart) {
					return
				}
			}
		})) {
			if chart == "ffuf" && suffix != "" {
				continue // refused: its word list is in one namespace
			}
			for _, r := range rulesOf(t, chart+"-rules"+suffix) {
				seen++
				wantRule(t, chart, suffix, r)
			}
		}
		if want := map[string]int{"": 29, "-cluster": 28}[suffix]; seen != want {
			t.Errorf("%d rules%s, want %d", seen, suffix, want)
		}
	}
}

func wantRule(t *testing.T, chart, suffix string, r cascadingv1.CascadingRule) {
	t.Helper()
	want, ok := cascades[r.Name]
	if !ok || want.chart != chart {
		t.Errorf("chart %s has a rule %s", chart, r.Name)
		return
	}
	kind := cmp.Or(map[string]string{"-cluster": "ClusterCascadingRule"}[suffix], "CascadingRule")
	got := cascade{
		chart: chart, invasive: r.Labels["securecodebox.io/invasive"], intensive: r.Labels["securecodebox.io/intensive"],
		scanType: r.Spec.ScanSpec.ScanType, parameters: shorten(r.Spec.ScanSpec.Parameters),
	}
	for _, m := range r.Spec.Matches.AnyOf {
		got.matches = append(got.matches, match(m))
	}
	if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", want); g != w || r.Kind != kind {
		t.Errorf("%s %s\n got %s\nwant %s", r.Kind, r.Name, g, w)
	}
	if wantType := map[bool]string{true: "bruteforce"}[chart == "ncrack"]; r.Labels["securecodebox.io/type"] != wantType {
		t.Errorf("%s: type %q, want %q", r.Name, r.Labels["securecodebox.io/type"], wantType)
	}
}

// TestRulesBringTheirFiles: ffuf's word list, and ZAP's plan and target.
func TestRulesBringTheirFiles(t *testing.T) {
	spec := rulesOf(t, "ffuf-rules")[0].Spec.ScanSpec
	if len(spec.Volumes) != 1 || spec.Volumes[0].ConfigMap == nil || spec.Volumes[0].ConfigMap.Name != "ffuf-config" ||
		len(spec.VolumeMounts) != 1 || spec.VolumeMounts[0].Name != spec.Volumes[0].Name || spec.VolumeMounts[0].MountPath != "/config/" {
		t.Errorf("ffuf: %v at %v", spec.Volumes, spec.VolumeMounts)
	}
	for _, suffix := range []string{"", "-cluster"} {
		for _, r := range rulesOf(t, "zap-automation-framework-rules"+suffix) {
			spec := r.Spec.ScanSpec
			target := strings.TrimPrefix(r.Name, "zap-") + "://{{$.hostOrIP}}:{{attributes.port}}"
			if len(spec.Env) != 1 || spec.Env[0].Name != "TARGET_URL" || spec.Env[0].Value != target {
				t.Errorf("%s%s: env %v", r.Name, suffix, spec.Env)
			}
			if suffix != "" {
				continue // the ScanType writes the plan itself
			}
			if len(spec.Volumes) != 1 || spec.Volumes[0].ConfigMap == nil || spec.Volumes[0].ConfigMap.Name != "zap-automation-framework-baseline-config" {
				t.Errorf("%s: volumes %v", r.Name, spec.Volumes)
				continue
			}
			m := spec.VolumeMounts[0]
			if m.Name != spec.Volumes[0].Name || m.MountPath != "/home/securecodebox/scb-automation/automation.yaml" || m.SubPath != "automation.yaml" {
				t.Errorf("%s: mount %v", r.Name, m)
			}
		}
	}
}
