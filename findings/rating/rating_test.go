// SPDX-License-Identifier: Apache-2.0

package rating

import (
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
)

func TestRating(t *testing.T) {
	for _, c := range []struct {
		attributes string
		score      float64
		scored     bool
		critical   bool
	}{
		{`{}`, 0, false, false},
		{`{"cvss":9}`, 9, true, true},
		{`{"cvss":8.9}`, 8.9, true, false},
		{`{"cvss_score":9.8}`, 9.8, true, true},
		{`{"cvssScore":"7.5"}`, 7.5, true, false},
		{`{"security_severity":"10.0"}`, 10, true, true},
		{`{"cvss":"AV:N/AC:L","cvss_score":4}`, 4, true, false},
		{`{"cvss":11}`, 0, false, false},
		{`{"cvss":-1,"severity":"critical"}`, 0, false, true},
		{`{"cvss":"NaN"}`, 0, false, false},
		{`{"cvss":{"score":9}}`, 0, false, false},
		{`{"original_severity":"CRITICAL","cvss_score":5}`, 5, true, true},
		{`{"original_severity":"High"}`, 0, false, false},
	} {
		value, err := finding.NewDecoder(0).Value([]byte(c.attributes))
		if err != nil {
			t.Fatal(err)
		}
		attributes, ok := value.(finding.Object)
		if !ok {
			t.Fatalf("%s is not an object", c.attributes)
		}
		if score, scored := Score(attributes); score != c.score || scored != c.scored {
			t.Errorf("%s: score %v %v, want %v %v", c.attributes, score, scored, c.score, c.scored)
		}
		if got := IsCritical(attributes); got != c.critical {
			t.Errorf("%s: critical %v, want %v", c.attributes, got, c.critical)
		}
	}
}
