// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/selector"
)

func TestTextRefuses(t *testing.T) {
	cases := map[string]struct{ cascades, says string }{
		"LabelsNoObject":     {`{"matchLabels":[]}`, "matchLabels is not an object"},
		"ExpressionsNoList":  {`{"matchExpressions":{}}`, "matchExpressions is not a list"},
		"ExpressionNoObject": {`{"matchExpressions":[7]}`, "matchExpressions[0]: is not an object"},
		"NoKey":              {`{"matchExpressions":[{"operator":"Exists"}]}`, "matchExpressions[0]: has no key"},
		"NoValues":           {`{"matchExpressions":[{"key":"a","operator":"In"}]}`, "matchExpressions[0]: operator In needs values"},
		"NoSuchOperator":     {`{"matchExpressions":[{"key":"a","operator":"in","values":["b"]}]}`, `matchExpressions[0]: there is no operator "in"; there are In, NotIn, Exists and DoesNotExist`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := selector.Text(object(t, c.cascades))
			if err == nil || err.Error() != c.says {
				t.Errorf("text %q, error %v, want %q", text, err, c.says)
			}
		})
	}
	if _, err := selector.Parse("a in (b"); err == nil {
		t.Error("an unfinished selector was taken")
	}
}

func object(t *testing.T, text string) finding.Object {
	t.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	return v.(finding.Object)
}
