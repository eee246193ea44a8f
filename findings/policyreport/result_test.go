// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
)

func TestResult(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	for name, c := range map[string]struct {
		reason, finding, want string
		mapping               Mapping
	}{
		"Whole": {
			reason: "each field has its place",
			finding: `{"id":"1","name":"Log4Shell","description":"Remote code","category":"Java","severity":"HIGH","location":"tcp://a:1","osi_layer":"APPLICATION",
				"mitigation":"Update","identified_at":"2026-01-02T03:04:05.5Z","references":[{"type":"CWE","value":"CWE-502"},{"type":"CVE","value":"CVE-2021-44228"},{"type":"URL","value":"https://x"}],
				"attributes":{"port":443,"open":true,"tags":["a"],"cvss":10,"kubernetes":{"kind":"Pod","name":"p","namespace":"n","apiVersion":"v1"}}}`,
			want: `{"source":"scanyard/nmap","policy":"CVE-2021-44228","rule":"Log4Shell","category":"Java","severity":"critical","timestamp":{"seconds":1767323045,"nanos":500000000},
				"result":"fail","scored":true,"resources":[{"apiVersion":"v1","kind":"Pod","namespace":"n","name":"p"}],"message":"Remote code (tcp://a:1)",
				"properties":{"id":"1","location":"tcp://a:1","osi_layer":"APPLICATION","mitigation":"Update","references":"CWE-502,CVE-2021-44228,https://x","severity":"HIGH","cvss":"10","attr.port":"443","attr.open":"true","attr.cvss":"10"}}`,
		},
		"Bare": {
			reason: "a finding of another parser may have nothing", finding: `{}`,
			want: `{"source":"scanyard/nmap","policy":"scanyard","result":"fail","scored":true}`,
		},
		"Informational": {
			reason: "what is not a weakness does not fail", finding: `{"name":"n","severity":"INFORMATIONAL","attributes":{"rule_id":"r"}}`,
			want: `{"source":"scanyard/nmap","policy":"r","rule":"n","severity":"info","result":"warn","scored":true,"message":"n","properties":{"attr.rule_id":"r"}}`,
		},
		"FalsePositive": {
			reason: "a marked finding stays, and counts as skipped", finding: `{"category":"c","severity":"LOW","false_positive":true}`,
			want: `{"source":"scanyard/nmap","policy":"c","category":"c","severity":"low","result":"skip","scored":true}`,
		},
		"Critical": {
			reason: "findings know no critical, scanners do", finding: `{"severity":"HIGH","attributes":{"severity":"CRITICAL"}}`,
			want: `{"source":"scanyard/nmap","policy":"scanyard","severity":"critical","result":"fail","scored":true,"properties":{"attr.severity":"CRITICAL","severity":"HIGH"}}`,
		},
		"Origin": {
			reason: "queries do not count what is a copy", finding: `{"attributes":{"origin":"VulnerabilityReport/api"}}`,
			want: `{"source":"scanyard/nmap","policy":"scanyard","result":"fail","scored":true,"properties":{"attr.origin":"VulnerabilityReport/api","scanyard.io/origin":"VulnerabilityReport/api"}}`,
		},
		"NoScore": {
			reason: "a score is between 0 and 10", finding: `{"attributes":{"cvss":"11"}}`,
			want: `{"source":"scanyard/nmap","policy":"scanyard","result":"fail","scored":true,"properties":{"attr.cvss":"11"}}`,
		},
		"OfTheScan": {
			reason: "times and objects may be the Scan's", finding: `{"parsed_at":"no time"}`,
			mapping: Mapping{Finished: "2026-01-02T03:04:05Z", Resource: &ObjectReference{Kind: "Service", Name: "s"}},
			want:    `{"source":"scanyard/nmap","policy":"scanyard","result":"fail","scored":true,"timestamp":{"seconds":1767323045,"nanos":0},"resources":[{"kind":"Service","name":"s"}]}`,
		},
		"Odd": {
			reason: "values of other types are as if they were absent", finding: `{"name":1,"references":[1,{"type":"CVE","value":2}],"attributes":[],"false_positive":"true"}`,
			want: `{"source":"scanyard/nmap","policy":"scanyard","result":"fail","scored":true}`,
		},
		"TooLow": {reason: "below the least severity", finding: `{"severity":"LOW"}`, mapping: Mapping{Least: Ranks[finding.Medium]}},
		"None":   {reason: "without a severity", finding: `{}`, mapping: Mapping{Least: Ranks[finding.Informational]}},
	} {
		t.Run(name, func(t *testing.T) {
			c.mapping.Source, c.mapping.Informational = "scanyard/nmap", "warn"
			r, ok := c.mapping.Result(read(t, c.finding))
			if ok != (c.want != "") {
				t.Fatalf("%s: written is %t", c.reason, ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(plain(t, []byte(c.want)), encoded(t, &r)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
	m := Mapping{}
	r, _ := m.Result(read(t, `{"description":"`+long+`","location":"l","mitigation":"`+long+`"}`))
	if len(r.Message) > maxMessage || !strings.HasSuffix(r.Message, "ä… (l)") || len(r.Properties["mitigation"]) > maxMitigation {
		t.Errorf("message has %d bytes and ends in %q, mitigation has %d", len(r.Message), r.Message[len(r.Message)-8:], len(r.Properties["mitigation"]))
	}
}

func TestAttributesAreBounded(t *testing.T) {
	var members []string
	for range 100 {
		members = append(members, `"k`+strings.Repeat("x", len(members))+`":"`+strings.Repeat("v", 1000)+`"`)
	}
	m := Mapping{}
	r, _ := m.Result(read(t, `{"attributes":{`+strings.Join(members, ",")+`}}`))
	if len(r.Properties) != maxAttributes {
		t.Errorf("%d properties, want %d", len(r.Properties), maxAttributes)
	}
	for key, value := range r.Properties {
		if len(value) > maxAttribute {
			t.Errorf("%s has %d bytes", key, len(value))
		}
	}
}

func read(t *testing.T, text string) finding.Object {
	t.Helper()
	object, err := Decode(finding.NewDecoder(0), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func encoded(t *testing.T, value any) any {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return plain(t, raw)
}

func plain(t *testing.T, raw []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return value
}
