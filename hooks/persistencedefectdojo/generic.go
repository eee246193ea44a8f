// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// genericImport is DefectDojo's word for findings in its own format.
const genericImport = "Generic Findings Import"

// nativeParsers are DefectDojo's words for raw results it can read, by ScanType.
var nativeParsers = map[string]string{
	"nmap":                      "Nmap Scan",
	"zap-automation-framework":  "ZAP Scan",
	"sslyze":                    "Sslyze Scan",
	"ssh-audit":                 "SSH Audit Importer",
	"trivy-image":               "Trivy Scan",
	"trivy-image-autodiscovery": "Trivy Scan",
	"trivy-filesystem":          "Trivy Scan",
	"trivy-repo":                "Trivy Scan",
	"trivy-k8s":                 "Trivy Scan",
	"gitleaks":                  "Gitleaks Scan",
	"nikto":                     "Nikto Scan",
	"nuclei":                    "Nuclei Scan",
	"wpscan":                    "Wpscan",
	"semgrep":                   "Semgrep JSON Report",
}

// source is what is read of a finding.
type source struct {
	ID           any             `json:"id"`
	Name         any             `json:"name"`
	Description  any             `json:"description"`
	Severity     any             `json:"severity"`
	Location     any             `json:"location"`
	IdentifiedAt any             `json:"identified_at"`
	ParsedAt     any             `json:"parsed_at"`
	Attributes   json.RawMessage `json:"attributes"`
}

// appendGeneric appends an element of a generic import. makeID gives the id of a finding that has none.
func appendGeneric(dst, element []byte, mark *exception.Mark, makeID func([]byte) (string, error), now time.Time) ([]byte, error) {
	var f source
	if err := json.Unmarshal(element, &f); err != nil {
		return dst, fmt.Errorf("read finding: %w", err)
	}
	id := textOf(f.ID)
	if id == "" {
		var err error
		if id, err = makeID(element); err != nil {
			return dst, err
		}
	}
	description := textOf(f.Description)
	if len(f.Attributes) > 0 && string(f.Attributes) != "null" {
		var pretty strings.Builder
		pretty.WriteString(description + "\n ")
		if err := writePretty(&pretty, f.Attributes); err != nil {
			return dst, fmt.Errorf("attributes: %w", err)
		}
		description = pretty.String()
	}
	out := finding.Object{
		{Key: "title", Value: textOf(f.Name)},
		{Key: "description", Value: description},
		{Key: "severity", Value: severityOf(f.Severity)},
		{Key: "date", Value: dateOf(now, f.IdentifiedAt, f.ParsedAt)},
		{Key: "unique_id_from_tool", Value: id},
	}
	if location := textOf(f.Location); isURI(location) {
		out.Set("endpoints", []string{location})
	}
	except(&out, mark)
	return finding.AppendValue(dst, out)
}

// except says in DefectDojo's words what an exception says. Findings under investigation stay as they are: DefectDojo has a state
// for them, which its import does not take.
func except(out *finding.Object, m *exception.Mark) {
	if m == nil || !m.Suppresses() {
		return
	}
	out.Set("active", false)
	switch m.Status {
	case settingsv1alpha2.ExceptionFalsePositive:
		out.Set("false_p", true)
	case settingsv1alpha2.ExceptionAccepted:
		out.Set("risk_accepted", true)
	default:
		out.Set("out_of_scope", true)
	}
}

// text is a value that is a string, else nothing.
func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// severityOf is DefectDojo's word for a severity.
func severityOf(v any) string {
	switch strings.ToUpper(textOf(v)) {
	case finding.High:
		return "High"
	case finding.Medium:
		return "Medium"
	case finding.Low:
		return "Low"
	}
	return "Info"
}

// dateOf is the day of the first value that is a time, in the zone of now, which is taken where none is.
func dateOf(now time.Time, values ...any) string {
	for _, v := range values {
		if at, err := time.Parse(time.RFC3339, textOf(v)); err == nil {
			return at.In(now.Location()).Format(time.DateOnly)
		}
	}
	return now.Format(time.DateOnly)
}

// isURI says whether a location can be handed to DefectDojo as an endpoint. It is as strict as RFC 2396 is, since a
// single endpoint that DefectDojo cannot read would fail the whole import; characters beyond ASCII are fine.
func isURI(location string) bool {
	if location == "" || strings.ContainsFunc(location, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("<>\"{}|\\^`", r)
	}) {
		return false
	}
	parsed, err := url.Parse(location)
	if err != nil {
		return false
	}
	// Brackets are for addresses of version 6 only.
	return !strings.ContainsAny(strings.Replace(location, "["+parsed.Hostname()+"]", "", 1), "[]")
}
