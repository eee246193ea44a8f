// SPDX-License-Identifier: Apache-2.0

package refs

import (
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// List gathers references. The zero List is empty.
type List struct {
	list []finding.Reference
	seen map[finding.Reference]bool
}

var (
	cvePattern = regexp.MustCompile(`(?i)^CVE-\d{4}-\d{4,19}\b`)
	ghsa       = regexp.MustCompile(`(?i)^GHSA(-[0-9a-z]{4}){3}\b`)
	cwePattern = regexp.MustCompile(`(?i)\bCWE[-_/ ]?0*([1-9]\d{0,5})\b`)
)

// URL adds a link, if it is one.
func (l *List) URL(url string) {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		l.add("URL", url)
	}
}

// ID adds a vulnerability by its name: a CVE or GHSA with its page. It tells whether the name was one of these; what
// follows it, as in "CVE-2024-1234-openssl", does not count.
func (l *List) ID(id string) bool {
	if cve := cvePattern.FindString(id); cve != "" {
		cve = strings.ToUpper(cve)
		l.add("CVE", cve)
		l.add("URL", "https://nvd.nist.gov/vuln/detail/"+cve)
		return true
	}
	if advisory := ghsa.FindString(id); advisory != "" {
		advisory = "GHSA" + strings.ToLower(advisory[4:])
		l.add("GHSA", advisory)
		l.add("URL", "https://github.com/advisories/"+advisory)
		return true
	}
	return false
}

// CWE adds the first weakness that a text names: "CWE-79", "external/cwe/cwe-079", "CWE-79: Cross-site Scripting". It
// tells whether there was one.
func (l *List) CWE(text string) bool {
	match := cwePattern.FindStringSubmatch(text)
	if match == nil {
		return false
	}
	l.add("CWE", "CWE-"+match[1])
	l.add("URL", "https://cwe.mitre.org/data/definitions/"+match[1]+".html")
	return true
}

func (l *List) add(typ, value string) {
	ref := finding.Reference{Type: typ, Value: value}
	if l.seen[ref] {
		return
	}
	if l.seen == nil {
		l.seen = map[finding.Reference]bool{}
	}
	l.seen[ref] = true
	l.list = append(l.list, ref)
}

// References are those of a finding: absent if there are none.
func (l *List) References() finding.References { return finding.References{List: l.list} }
