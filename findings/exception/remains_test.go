// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"slices"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/exception"
)

// What is left of a finding decides where it tells; where it does not, what matched the whole finding goes on to match.
func TestMatchRemains(t *testing.T) {
	const left = `{"name":"lodash","severity":"HIGH","references":[{"value":"CVE-1"}],"attributes":{"port":"443","open":"true","path":"/a"}}`
	for name, c := range map[string]struct {
		reason, entry, held string
		lacks               []string
		want                bool
	}{
		"Tells":              {"all that is asked for is left", `{"names":["lod*"],"references":["cve-1"]}`, "", nil, true},
		"TellsNot":           {"a field that is left is not met", `{"names":["lod*"],"severities":["LOW"]}`, "FindingException/x", []string{"names"}, false},
		"Texts":              {"attributes are texts", `{"attributes":{"port":443,"open":true,"path":"/a"}}`, "", nil, true},
		"OtherNumber":        {"another number is another text", `{"attributes":{"port":80}}`, "FindingException/x", nil, false},
		"Unknown":            {"what is not left matches nothing new", `{"names":["lod*"],"expression":"finding.name != ''"}`, "", []string{"expression"}, false},
		"UnknownHeld":        {"and goes on to match", `{"names":["lod*"],"expression":"finding.name == ''"}`, "FindingException/x", []string{"expression"}, true},
		"UnknownHeldByOther": {"what has matched is another one", `{"names":["lod*"],"attributes":{"cut":"a"}}`, "FindingException/y", []string{"attributes.cut"}, false},
		"OneAttribute":       {"an attribute that is left is not met", `{"attributes":{"cut":"a","port":80}}`, "FindingException/x", []string{"attributes.cut"}, false},
		"AllUnknown": {
			"every field may be lacking", `{"fingerprints":["f"],"names":["n"],"categories":["c"],"locations":["l"],"severities":["LOW"],"references":["r"],` +
				`"packages":["pkg:npm/a"],"products":["p"],"attributes":{"a":1},"expression":"true"}`, "FindingException/x",
			[]string{
				"fingerprints", "names", "categories", "locations", "severities", "references", "packages", "products", "attributes.a", "expression",
			},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := finding.DecodeValue([]byte(left), 0)
			if err != nil {
				t.Fatal(err)
			}
			held := exception.Compile([]exception.Exception{withEntries(t, "team", "x", c.entry)}, now).For(exception.Scan{Namespace: "team"})
			mark, ok := held.MatchRemains(&exception.Remains{
				Finding: value.(finding.Object), Held: c.held, Lacks: func(field string) bool { return slices.Contains(c.lacks, field) },
			})
			if ok != c.want || ok && mark.Name != "x" {
				t.Errorf("%s: %v %t", c.reason, mark, ok)
			}
		})
	}
}
