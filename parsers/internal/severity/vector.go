// SPDX-License-Identifier: Apache-2.0

package severity

import (
	"strings"

	gocvss20 "github.com/pandatix/go-cvss/20"
	gocvss30 "github.com/pandatix/go-cvss/30"
	gocvss31 "github.com/pandatix/go-cvss/31"
	gocvss40 "github.com/pandatix/go-cvss/40"
)

// maxVector is longer than any vector with all its metrics.
const maxVector = 500

// OfVector returns the score of a CVSS vector: the base score of version 2, 3.0 and 3.1, the score of version 4. It
// tells whether the vector is one. Advisories often have no more than the vector.
func OfVector(vector string) (float64, bool) {
	if len(vector) > maxVector {
		return 0, false
	}
	switch {
	case strings.HasPrefix(vector, "CVSS:4.0/"):
		if v, err := gocvss40.ParseVector(vector); err == nil {
			return v.Score(), true
		}
	case strings.HasPrefix(vector, "CVSS:3.1/"):
		if v, err := gocvss31.ParseVector(vector); err == nil {
			return v.BaseScore(), true
		}
	case strings.HasPrefix(vector, "CVSS:3.0/"):
		if v, err := gocvss30.ParseVector(vector); err == nil {
			return v.BaseScore(), true
		}
	default:
		if v, err := gocvss20.ParseVector(vector); err == nil {
			return v.BaseScore(), true
		}
	}
	return 0, false
}
