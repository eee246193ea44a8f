// SPDX-License-Identifier: Apache-2.0

package testssl

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
)

// The categories. Three are those of sslyze's parser.
const (
	categoryService       = "TLS Service Info"
	categoryVersion       = "Outdated TLS Version"
	categoryCertificate   = "Invalid Certificate"
	categoryVulnerability = "TLS Vulnerability"
	categoryHeader        = "HTTP Header"
	categoryConfiguration = "TLS Configuration"
	categoryProblem       = "Scan Problem"
)

// endpoint is what was tested. All of it can be unknown.
type endpoint struct {
	host, ip string
	port     int
}

func newEndpoint(host, ip, port string) endpoint {
	e := endpoint{host: host, ip: strings.Trim(ip, "[]")}
	if n, err := strconv.Atoi(port); err == nil && n > 0 && n < 1<<16 {
		e.port = n
	}
	if e.host == "" && e.ip == "" {
		return endpoint{} // testssl writes a default port where it knows nothing yet
	}
	return e
}

// newFinding has the endpoint's location and attributes.
func (e endpoint) newFinding(name, category, severity string) *finding.Finding {
	f := &finding.Finding{
		Name:       finding.String(name),
		Category:   finding.String(category),
		OSILayer:   finding.String("PRESENTATION"),
		Severity:   finding.String(severity),
		Attributes: finding.Object{},
	}
	if category == categoryHeader {
		f.OSILayer = finding.String("APPLICATION")
	}
	at := e.host
	if at == "" {
		at = e.ip
	}
	if e.port != 0 && at != "" {
		at = net.JoinHostPort(strings.Trim(at, "[]"), strconv.Itoa(e.port))
	}
	if at != "" {
		f.Location = finding.String(at)
	}
	jsondoc.Set(&f.Attributes, "hostname", e.host)
	if e.ip != "" {
		jsondoc.Set(&f.Attributes, "ip_addresses", []string{e.ip})
	}
	if e.port != 0 {
		jsondoc.Set(&f.Attributes, "port", e.port)
	}
	return f
}

// rated is the finding of a test that testssl rates.
func (e endpoint) rated(o finding.Object, id, word, severity string) *finding.Finding {
	cves := strings.Fields(jsondoc.Text(o, "cve"))
	f := e.newFinding(id, categoryOf(id, len(cves) > 0), severity)
	if text := jsondoc.Text(o, "finding"); text != "" {
		f.Description = finding.String(text)
	}
	if hint := jsondoc.Text(o, "hint"); hint != "" {
		f.Mitigation = finding.String(hint)
	}
	var list refs.List
	for _, cve := range cves {
		list.ID(cve)
	}
	for cwe := range strings.FieldsSeq(jsondoc.Text(o, "cwe")) {
		list.CWE(cwe)
	}
	f.References = list.References()
	f.Attributes = append(f.Attributes, finding.Member{Key: "test", Value: id}, finding.Member{Key: "original_severity", Value: word})
	return f
}

// weaknesses are the tests for known weaknesses that have no CVE.
var weaknesses = []string{"fallback_SCSV", "secure_renego", "STARTTLS_injection", "opossum", "winshock", "LOGJAM", "DROWN", "BEAST", "RC4"}

// Beginnings of the ids of tests of certificates, and of HTTP headers.
var (
	certificates = []string{"cert", "OCSP_", "DNS_CAA", "intermediate_cert"}
	headers      = []string{
		"HSTS", "HPKP", "HTTP_", "banner_", "cookie_", "security_headers", "X-", "Content-Security-Policy", "Expect-CT",
		"Access-Control-", "Cross-Origin-", "Referrer-Policy", "Permissions-Policy", "Feature-Policy", "Cache-Control",
		"Pragma", "Clear-Site-Data", "Upgrade", "ipv4_in_header", "insecure_redirect", "Strict-Transport-Security",
	}
)

func categoryOf(id string, hasCVE bool) string {
	begins := func(start string) bool { return strings.HasPrefix(id, start) }
	switch {
	case versions[id] != "":
		return categoryVersion
	case slices.ContainsFunc(certificates, begins):
		return categoryCertificate
	case slices.ContainsFunc(headers, begins):
		return categoryHeader
	case hasCVE || slices.ContainsFunc(weaknesses, begins):
		return categoryVulnerability
	}
	return categoryConfiguration
}
