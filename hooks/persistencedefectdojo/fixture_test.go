// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type mappingCase struct {
	TimeZone string          `json:"timezone"`
	Findings json.RawMessage `json:"findings"`
	Expected json.RawMessage `json:"expected"`
	Cases    []struct {
		Severity any       `json:"severity"`
		Endpoint *endpoint `json:"endpoint"`
		Expected string    `json:"expected"`
	} `json:"cases"`
}

func TestFixtureDefectdojoMapping(t *testing.T) {
	sdktest.Cases(t, "defectdojo-mapping", func(t *testing.T, c mappingCase) {
		if c.Findings == nil && len(c.Cases) == 0 {
			t.Fatal("a case without inputs")
		}
		for _, each := range c.Cases {
			got := severityOf(each.Severity)
			if each.Endpoint != nil {
				got = each.Endpoint.location()
			}
			if got != each.Expected {
				t.Errorf("severity %v, endpoint %v: %q, want %q", each.Severity, each.Endpoint, got, each.Expected)
			}
		}
		if c.Findings == nil {
			return
		}
		dojo := newDojo()
		w := sdktest.New(t)
		w.Scan = `{"metadata":{"name":"s","namespace":"ns","uid":"u"},"spec":{"scanType":"kube-hunter"}}`
		w.Objects["/findings.json"] = c.Findings
		far := w.NewRemote(t, dojo.serve)
		if got := w.Run(t, Hook(), env(far.URL, map[string]string{"TZ": c.TimeZone})); got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
		if diff := cmp.Diff(sdktest.JSON(t, c.Expected), sdktest.JSON(t, dojo.imports[0].report)); diff != "" {
			t.Errorf("generic import (-want +got):\n%s", diff)
		}
	})
}

func TestGeneric(t *testing.T) {
	now := time.Date(2030, 1, 2, 0, 30, 0, 0, time.FixedZone("east", 3600))
	cases := map[string]struct {
		finding string
		want    string
		reason  string
	}{
		"Empty":           {`{}`, `{"title":"","description":"","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, "nothing is made up"},
		"NoAttributes":    {`{"name":"n","description":"d","attributes":null}`, `{"title":"n","description":"d","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, "no word null in the text"},
		"EmptyAttributes": {`{"name":"n","description":"d","attributes":{}}`, `{"title":"n","description":"d\n { }","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, ""},
		"Nested":          {`{"attributes":{"a":[1,2.50,"x"],"b":{"c":[],"d":[{"e":null}]},"f":true}}`, `{"title":"","description":"\n {\n  \"a\" : [ 1, 2.50, \"x\" ],\n  \"b\" : {\n    \"c\" : [ ],\n    \"d\" : [ {\n      \"e\" : null\n    } ]\n  },\n  \"f\" : true\n}","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, "as users' descriptions are"},
		"IdentifiedFirst": {`{"identified_at":"2020-01-01T23:30:00Z","parsed_at":"2021-01-01T00:00:00Z"}`, `{"title":"","description":"","severity":"Info","date":"2020-01-02","unique_id_from_tool":"1"}`, "the day of the zone"},
		"NoTime":          {`{"identified_at":"yesterday","parsed_at":"2021-01-01T00:00:00.123+02:00"}`, `{"title":"","description":"","severity":"Info","date":"2020-12-31","unique_id_from_tool":"1"}`, "what is not a time is passed over"},
		"Location":        {`{"severity":"high","location":"https://[::1]:8443/ü?q=1#f"}`, `{"title":"","description":"","severity":"High","date":"2030-01-02","unique_id_from_tool":"1","endpoints":["https://[::1]:8443/ü?q=1#f"]}`, ""},
		"NoURI":           {`{"location":"10.0.0.1:80"}`, `{"title":"","description":"","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, "an endpoint that cannot be read fails the whole import"},
		"NoURISpace":      {`{"location":"https://a b"}`, `{"title":"","description":"","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, ""},
		"NoURIBrackets":   {`{"location":"https://a/[x]"}`, `{"title":"","description":"","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, ""},
		"OtherTypes":      {`{"name":1,"description":[],"severity":{},"location":false}`, `{"title":"","description":"","severity":"Info","date":"2030-01-02","unique_id_from_tool":"1"}`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := appendGeneric(nil, []byte(c.finding), nil, func([]byte) (string, error) { return "1", nil }, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sdktest.JSON(t, []byte(c.want)), sdktest.JSON(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestLocation(t *testing.T) {
	cases := map[string]struct{ endpoint, want string }{
		"Whole":       {`{"protocol":"https","host":"a","port":8443,"path":"b/c","query":"d=1","fragment":"e"}`, "https://a:8443/b/c?d=1#e"},
		"PortTwice":   {`{"protocol":"http","host":"a:80","port":80}`, "http://a:80"},
		"PortNull":    {`{"protocol":"http","host":"a","port":null}`, "http://a"},
		"Unprotected": {`{"host":"a","path":"/"}`, "//a/"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e endpoint
			if err := json.NewDecoder(bytes.NewReader([]byte(c.endpoint))).Decode(&e); err != nil {
				t.Fatal(err)
			}
			if got := e.location(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	id := "f-1"
	at := func(protocol, host string, port json.Number) []*endpoint {
		return []*endpoint{{Protocol: protocol, Host: host, Port: port}}
	}
	k := newKnown()
	for _, d := range []*dojoFinding{
		{ID: 1, Title: "Whatever", UniqueID: &id},
		{ID: 2, Title: "Open Redirect", places: at("https", "a", "443")},
		{ID: 3, Title: "Open Redirect", places: at("https", "b", "443")},
		{ID: 4, Title: "Open Port: 22/Tcp", places: at("", "10.0.0.1", "22")},
		{ID: 5, Title: "Lonely"},
		{ID: 6, Title: "Only At C", places: at("https", "c", "443")},
		{ID: 7, Title: "First Of Two", places: at("", "d", "80")},
		{ID: 8, Title: "Second Of Two", places: at("", "d", "80")},
	} {
		k.add(d)
	}
	cases := map[string]struct {
		id, name, location string
		want               int64
		reason             string
	}{
		"ByID":             {"f-1", "other", "", 1, ""},
		"ByTitleAndPlace":  {"x", "open  redirect", "https://b/path", 3, "DefectDojo changes capitals; 443 is the port of https"},
		"TitleTwice":       {"x", "Open Redirect", "", 0, "it could be either"},
		"TitleElsewhere":   {"x", "Open Redirect", "https://z", 0, ""},
		"ByTitle":          {"x", "lonely", "https://q", 5, "nothing speaks against it"},
		"TitleOfOtherHost": {"x", "Only at C", "https://q", 0, "the same fault of another host is not this one"},
		"ByPlace":          {"x", "Open Port: 22 (ssh)", "tcp://10.0.0.1:22", 4, "one finding at the port"},
		"PlaceTwice":       {"x", "unknown", "tcp://d:80", 0, ""},
		"PlaceWithoutPort": {"x", "unknown", "tcp://10.0.0.1", 0, ""},
		"Nothing":          {"x", "unknown", "", 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := &finding.Finding{Name: finding.String(c.name), Location: finding.StringOrNull(c.location)}
			var got int64
			if d := k.find(c.id, f); d != nil {
				got = d.ID
			}
			if got != c.want {
				t.Errorf("finding %d, want %d; %s", got, c.want, c.reason)
			}
		})
	}
}

// TestExceptedFindings: DefectDojo is told why a finding need not be dealt with, in its own words.
func TestExceptedFindings(t *testing.T) {
	for status, want := range map[settingsv1alpha2.ExceptionStatus]string{
		settingsv1alpha2.ExceptionAccepted: `"active":false,"risk_accepted":true`, settingsv1alpha2.ExceptionFalsePositive: `"active":false,"false_p":true`,
		settingsv1alpha2.ExceptionNotAffected: `"active":false,"out_of_scope":true`, settingsv1alpha2.ExceptionMitigated: `"active":false,"out_of_scope":true`,
		settingsv1alpha2.ExceptionUnderInvestigation: `"unique_id_from_tool":"1"`,
	} {
		got, err := appendGeneric(nil, []byte(`{"id":"1","name":"a","severity":"HIGH"}`), &exception.Mark{Status: status}, nil, time.Unix(0, 0))
		if err != nil || !strings.HasSuffix(string(got), want+"}") {
			t.Errorf("%s: %s, %v", status, got, err)
		}
	}
}

// TestCasesOfExceptions runs the cases of exceptions through what DefectDojo imports.
func TestCasesOfExceptions(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	exceptiontest.Each(t, "DefectDojo", "ns", now, func(t *testing.T, c *exceptiontest.Case) {
		held := exception.Compile(c.List, now).For(exception.Scan{Namespace: "ns", Name: "shop"})
		mark, ok, err := held.MatchRaw(finding.NewDecoder(0), []byte(c.Finding))
		if err != nil {
			t.Fatal(err)
		}
		of := &mark
		if !ok {
			of = nil
		}
		got, err := appendGeneric(nil, []byte(c.Finding), of, nil, now)
		if err != nil {
			t.Fatal(err)
		}
		c.Marked(t, exceptiontest.Of(of))
		c.Counts(t, strings.Contains(string(got), `"active":false`))
	})
}
