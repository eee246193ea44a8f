// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/plan"
)

func TestCheck(t *testing.T) {
	cases := map[string]struct{ spec, field, says string }{
		"Good":            {`{"matches": {"anyOf": [{"category": "Open Port"}], "expression": "finding.attributes.port > 1024"}, "scanSpec": {"scanType": "nmap", "parameters": ["{{location}}"]}}`, "", ""},
		"WrongField":      {`{"matches": {"expression": "finding.categry == 'x'"}, "scanSpec": {}}`, "spec.matches.expression", `no field "categry"`},
		"NoBoolean":       {`{"matches": {"expression": "1 + 1"}, "scanSpec": {}}`, "spec.matches.expression", "yields int, want bool"},
		"NoCEL":           {`{"matches": {"expression": "finding.category =="}, "scanSpec": {}}`, "spec.matches.expression", "Syntax error"},
		"WidensItsScope":  {`{"matches": {}, "scanSpec": {}, "scanAnnotations": {"scope.cascading.securecodebox.io/domain": "x"}}`, "spec", "no rule may change what bounds the scope"},
		"BrokenTemplate":  {`{"matches": {}, "scanSpec": {"parameters": ["{{#open}}"]}}`, "spec", "parameters[0]"},
		"TemplateInLabel": {`{"matches": {}, "scanSpec": {}, "scanLabels": {"a": "{{/x}}"}}`, "spec", "scanLabels.a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			value, err := finding.DecodeValue([]byte(`{"metadata": {"name": "r"}, "spec": `+tc.spec+`}`), 0)
			if err != nil {
				t.Fatal(err)
			}
			mistakes := plan.Check(value.(finding.Object))
			if tc.says == "" {
				if len(mistakes) > 0 {
					t.Errorf("%v", mistakes)
				}
				return
			}
			if len(mistakes) != 1 || mistakes[0].Field != tc.field || !strings.Contains(mistakes[0].Err.Error(), tc.says) {
				t.Errorf("%v, want %s: … %s", mistakes, tc.field, tc.says)
			}
		})
	}
}
