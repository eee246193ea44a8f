// SPDX-License-Identifier: Apache-2.0

package rawgen

import (
	"fmt"
	"io"
)

var words = []string{
	"buffer", "overflow", "parser", "allows", "remote", "attacker", "header", "cookie", "session", "token", "crafted", "request",
	"memory", "bounds", "check", "missing", "input", "validation", "service", "denial", "privilege", "escalation", "path",
	"traversal", "injection", "script", "policy", "disclosure", "version", "component", "library", "certificate", "encoding",
}

// random makes texts that are always the same for the same start.
type random uint32

func (r *random) below(n int) int {
	*r = *r*1664525 + 1013904223
	return int(uint32(*r)>>16) % n
}

func (r *random) word() string { return words[r.below(len(words))] }

// sentence appends so many words, a space between them.
func (r *random) sentence(dst []byte, n int) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, r.word()...)
	}
	return append(dst, '.')
}

var trivyTargets = []string{
	`"Target":"registry.example.com/team/app:1.2.3 (debian 12.7)","Class":"os-pkgs","Type":"debian"`,
	`"Target":"app/package-lock.json","Class":"lang-pkgs","Type":"npm"`,
	`"Target":"Node.js","Class":"lang-pkgs","Type":"node-pkg"`,
	`"Target":"srv/go.sum","Class":"lang-pkgs","Type":"gomod"`,
}

// TrivyImage returns trivy's report of an image with so many vulnerabilities, spread over four targets.
func TrivyImage(vulnerabilities int) io.Reader {
	const head = `{"SchemaVersion":2,"CreatedAt":"2025-09-04T14:07:30.123456789Z","ArtifactName":"registry.example.com/team/app:1.2.3",` +
		`"ArtifactType":"container_image","Metadata":{"OS":{"Family":"debian","Name":"12.7"}},"Results":[`
	i, target := -1, 0
	r := random(1)
	return &generator{next: func(dst []byte) []byte {
		i++
		if i == 0 {
			dst = fmt.Appendf(dst, `%s{%s,"Vulnerabilities":[`, head, trivyTargets[0])
		}
		if i > vulnerabilities {
			return nil
		}
		if i == vulnerabilities {
			return append(dst, "]}]}\n"...)
		}
		if next := i * len(trivyTargets) / vulnerabilities; next > target {
			target = next
			dst = fmt.Appendf(dst, `]},{%s,"Vulnerabilities":[`, trivyTargets[target])
		} else if i > 0 {
			dst = append(dst, ',')
		}
		return trivyVulnerability(dst, &r, i)
	}}
}

func trivyVulnerability(dst []byte, r *random, i int) []byte {
	id := fmt.Sprintf("CVE-%d-%d", 2010+i%16, 10000+i)
	if i%10 == 0 {
		id = fmt.Sprintf("GHSA-%04x-%04x-%04x", i&0xffff, i*7&0xffff, i*13&0xffff)
	}
	name := fmt.Sprintf("lib%s%d", r.word(), r.below(500))
	severity := []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"}[i%5]
	dst = fmt.Appendf(dst, `{"VulnerabilityID":"%s","PkgID":"%s@1.%d.0","PkgName":"%s",`+
		`"PkgIdentifier":{"PURL":"pkg:deb/debian/%s@1.%d.0?arch=amd64","UID":"%016x"},"InstalledVersion":"1.%d.0-%d",`+
		`"FixedVersion":"1.%d.1-%d","Status":"fixed","Layer":{"DiffID":"sha256:%064x"},"SeveritySource":"nvd",`+
		`"PrimaryURL":"https://avd.example.com/nvd/%s","DataSource":{"ID":"debian","Name":"Tracker","URL":"https://tracker.example.org/"},`+
		`"Title":"%s: `, id, name, i%30, name, name, i%30, i, i%30, i%9, i%30, i%9, i, id, name)
	dst = r.sentence(dst, 12)
	dst = append(dst, `","Description":"`...)
	for range 6 {
		dst = append(r.sentence(dst, 14), ' ')
	}
	dst = fmt.Appendf(dst, `","Severity":"%s","CweIDs":["CWE-%d"],"VendorSeverity":{"debian":%d,"nvd":%d,"redhat":2},`+
		`"CVSS":{"nvd":{"V3Vector":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H","V3Score":7.5}},"References":[`,
		severity, 20+i%900, 1+i%3, 1+i%4)
	for n, host := range []string{"access", "lists", "security", "bugs", "nvd", "tracker", "git", "www"} {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `"https://%s.example.org/%s/%d"`, host, id, n)
	}
	return append(dst, `],"PublishedDate":"2024-11-15T21:15:07.753Z","LastModifiedDate":"2025-01-07T03:39:10.25Z"}`...)
}

// Nuclei returns nuclei's JSON lines, so many of them.
func Nuclei(results int) io.Reader {
	i := -1
	r := random(1)
	return &generator{next: func(dst []byte) []byte {
		i++
		if i >= results {
			return nil
		}
		return nucleiLine(dst, &r, i)
	}}
}

func nucleiLine(dst []byte, r *random, i int) []byte {
	host := fmt.Sprintf("https://app-%d.example.com", i%997)
	if i%3 == 0 {
		host += ":8443"
	}
	dst = fmt.Appendf(dst, `{"template":"http/misconfiguration/rule-%d.yaml","template-url":"https://templates.example.org/http/misconfiguration/rule-%d.yaml",`+
		`"template-id":"rule-%d","template-path":"/root/nuclei-templates/http/misconfiguration/rule-%d.yaml","info":{"name":"`,
		i%500, i%500, i%500, i%500)
	dst = r.sentence(dst, 5)
	dst = fmt.Appendf(dst, `","author":["alice","bob"],"tags":["misconfig","generic","%s"],"description":"`, r.word())
	dst = append(r.sentence(dst, 12), ' ')
	dst = append(r.sentence(dst, 12), `","reference":`...)
	if i%4 == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = fmt.Appendf(dst, `["https://ref.example.org/%d","https://wiki.example.org/%d"]`, i, i)
	}
	cve := "null"
	if i%5 == 0 {
		cve = fmt.Sprintf(`["cve-2024-%d"]`, 10000+i)
	}
	dst = fmt.Appendf(dst, `,"severity":"%s","metadata":{"max-request":%d},"classification":{"cve-id":%s,"cwe-id":["cwe-%d"]}},`+
		`"matcher-name":"%s","type":"http","host":"%s","path":"%s/%s/%d","matched-at":"%s/%s/%d","ip":"198.%d.%d.%d",`+
		`"timestamp":"2025-09-04T14:%02d:%02d.272358+02:00",`+
		`"curl-command":"curl -X 'GET' -H 'Accept: */*' -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64)' '%s/%d'","matcher-status":true`,
		[]string{"info", "low", "medium", "high", "critical", "unknown"}[i%6], 1+i%5, cve, 20+i%900, r.word(), host, host, r.word(), i,
		host, r.word(), i, 18+i>>16&1, i>>8&255, i&255, i/60%60, i%60, host, i)
	if i%7 == 0 {
		dst = append(dst, `,"extracted-results":["`...)
		dst = append(r.sentence(dst, 3), `"]`...)
	}
	return append(dst, "}\n"...)
}
