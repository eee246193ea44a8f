// SPDX-License-Identifier: Apache-2.0

// Package rating reads from a finding how bad its scanner says it is, beyond the four severities of the contract: a CVSS
// score, and whether the finding is critical.
//
// Parsers write both into attributes: `cvss_score` (ours), `cvss` and `cvssScore` (others'), `security_severity` (SARIF, a
// score as text), and the scanner's own word as `original_severity` or `severity`.
package rating

import (
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

const (
	// Highest is the highest CVSS score.
	Highest = 10.0
	// critical is the score from which a finding is critical, by section 5 of the CVSS 3.1 and section 6 of the 4.0 specification.
	critical = 9.0
)

// Score returns the CVSS score among the attributes of a finding, from 0 to Highest; false where there is none.
func Score(attributes finding.Object) (float64, bool) {
	for _, key := range []string{"cvss", "cvss_score", "cvssScore", "security_severity"} {
		value, _ := attributes.Get(key)
		score, ok := value.(float64)
		if words := attributes.Text(key).String(); words != "" {
			var err error
			score, err = strconv.ParseFloat(words, 64)
			ok = err == nil
		}
		if ok && score >= 0 && score <= Highest {
			return score, true
		}
	}
	return 0, false
}

// IsCritical says whether the scanner calls a finding critical, or its CVSS score is 9 or more.
func IsCritical(attributes finding.Object) bool {
	for _, key := range []string{"original_severity", "severity"} {
		if strings.EqualFold(attributes.Text(key).String(), "critical") {
			return true
		}
	}
	score, ok := Score(attributes)
	return ok && score >= critical
}
