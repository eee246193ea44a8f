// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/rules"
)

// FuzzRules holds that rules of any shape are read or refused, and then match or do not.
func FuzzRules(f *testing.F) {
	f.Add(`[{"matches":{"anyOf":[{"severity":"HIGH"}],"states":["new"]}}]`, `{"severity":"HIGH"}`)
	f.Add(`[{"matches":{"anyOf":[{"attributes":{"list":["*"]}}]}}]`, `{"attributes":{"list":[1]}}`)
	f.Add(`null`, `1`)
	f.Fuzz(func(t *testing.T, text, element string) {
		for _, wild := range []bool{false, true} {
			rules, err := rules.Parse([]byte(text), wild)
			if err != nil {
				return
			}
			value, err := finding.DecodeValue([]byte(element), 0)
			if err != nil {
				return
			}
			for _, state := range []compare.State{"", compare.New, compare.Known, compare.Fixed} {
				if rules.Match(value, state) && len(rules) == 0 && state == compare.Fixed {
					t.Error("without rules no fixed finding is reported")
				}
			}
		}
	})
}
