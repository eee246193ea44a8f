// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const (
	scanOK = `{"metadata":{"name":"nmap-x","namespace":"ns","uid":"u-1","creationTimestamp":"2030-01-01T00:00:00Z"},` +
		`"spec":{"scanType":"nmap"},"status":{"state":"HookProcessing","findings":{"count":3,"severities":{"high":1,"low":2},"categories":{"Open Port":3}}}}`
	scanErrored = `{"metadata":{"name":"nmap-x","namespace":"ns","uid":"u-1","creationTimestamp":"2030-01-01T00:00:00Z"},` +
		`"spec":{"scanType":"nmap"},"status":{"state":"Errored","errorDescription":"the scanner's Job failed: <exit> code 1 & more"}}`
	threeFindings = `[{"id":"1","name":"a","severity":"HIGH","category":"Open Port","location":"tcp://h:1","attributes":{"port":1}},` +
		`{"id":"2","name":"b","severity":"LOW","category":"Open Port","location":"tcp://h:2","attributes":{"port":2}},` +
		`{"id":"3","name":"c","severity":"LOW","category":"Host","location":"tcp://h","attributes":{}}]`
)

func accept(int, sdktest.Request) sdktest.Reply { return sdktest.Reply{} }

// run runs the hook with channels, whose addresses are in the variables FAR and OTHER, over three findings.
func run(t *testing.T, w *sdktest.World, channels string, env map[string]string, reply func(int, sdktest.Request) sdktest.Reply) ([]sdktest.Request, sdktest.Result) {
	t.Helper()
	far := w.NewRemote(t, reply)
	all := map[string]string{"NOTIFICATION_CHANNELS": channels, "FAR": far.URL + "/services/s3cr3tpath", "FAR_END": far.URL}
	maps.Copy(all, env)
	got := w.Run(t, Hook(), all)
	if strings.Contains(got.Stderr, "s3cr3t") {
		t.Errorf("a credential is printed: %s", got.Stderr)
	}
	return far.Requests(), got
}

func newWorld(t *testing.T) *sdktest.World {
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = scanOK, []byte(threeFindings)
	return w
}

// names is a template that makes the names of what it is given.
const names = `templateText: '{"names": {{ $n := list }}{{ range .findings }}{{ $n = append $n .name }}{{ end }}{{ toJson $n }}, "count": {{ .count }}, "more": {{ .more }}}'`

func bodies(requests []sdktest.Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, string(r.Body))
	}
	return all
}

func TestChoice(t *testing.T) {
	cases := map[string]struct {
		channel  string
		previous string
		want     []string
		reason   string
	}{
		"All":             {``, "", []string{`{"names": ["a","b","c"], "count": 3, "more": 0}`}, "no rules pass all"},
		"Rule":            {`rules: [{matches: {anyOf: [{attributes: {port: 2}}]}}]`, "", []string{`{"names": ["b"], "count": 1, "more": 0}`}, ""},
		"EveryRule":       {`rules: [{matches: {anyOf: [{severity: LOW}]}}, {matches: {anyOf: [{category: Host}, {category: x}]}}]`, "", []string{`{"names": ["c"], "count": 1, "more": 0}`}, ""},
		"StarIsPlain":     {`rules: [{matches: {anyOf: [{category: "Open*"}]}}]`, "", []string{`{"names": [], "count": 0, "more": 0}`}, "wildcards are off unless asked for"},
		"Wildcards":       {"wildcards: true\n  rules: [{matches: {anyOf: [{category: \"Open*\"}]}}]", "", []string{`{"names": ["a","b"], "count": 2, "more": 0}`}, ""},
		"Limit":           {`maxFindings: 2`, "", []string{`{"names": ["a","b"], "count": 3, "more": 1}`}, "all are counted"},
		"SkipFindings":    {"skipNotificationOnZeroFindings: true\n  rules: [{matches: {anyOf: []}}]", "", nil, ""},
		"SkipFinding":     {"skipNotificationOnZeroFinding: true\n  rules: [{matches: {anyOf: []}}]", "", nil, "the spelling of the documentation"},
		"NoSkip":          {"skipNotificationOnZeroFindings: false\n  rules: [{matches: {anyOf: []}}]", "", []string{`{"names": [], "count": 0, "more": 0}`}, ""},
		"YAMLText":        {`rules: [{matches: {anyOf: [{severity: "yes"}, {severity: on}, {category: Host}]}}]`, "", []string{`{"names": ["c"], "count": 1, "more": 0}`}, "on is a text, as js-yaml has it"},
		"NoPrevious":      {`rules: [{matches: {states: [new]}}]`, "", []string{`{"names": ["a","b","c"], "count": 3, "more": 0}`}, "in a first run all are new"},
		"New":             {`rules: [{matches: {states: [new]}}]`, `[{"id":"9","name":"a","severity":"HIGH","category":"Open Port","location":"tcp://h:1","attributes":{"port":1}},{"name":"gone"}]`, []string{`{"names": ["b","c"], "count": 2, "more": 0}`}, ""},
		"KnownOrFixed":    {`rules: [{matches: {states: [known, fixed]}}]`, `[{"id":"9","name":"a","severity":"HIGH","category":"Open Port","location":"tcp://h:1","attributes":{"port":1}},{"name":"gone"}]`, []string{`{"names": ["a","gone"], "count": 2, "more": 0}`}, ""},
		"FixedAndSevere":  {`rules: [{matches: {states: [new, fixed]}}, {matches: {anyOf: [{severity: HIGH}]}}]`, `[{"name":"gone"},{"name":"bad","severity":"HIGH"}]`, []string{`{"names": ["a","bad"], "count": 2, "more": 0}`}, "every rule must match"},
		"StateWithinRule": {`rules: [{matches: {states: [fixed], anyOf: [{severity: LOW}]}}]`, `[{"name":"gone"},{"name":"slight","severity":"LOW"}]`, []string{`{"names": ["slight"], "count": 1, "more": 0}`}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			env := map[string]string{}
			if c.previous != "" {
				w.Objects["/previous.json"] = []byte(c.previous)
				env["PREVIOUS_FINDINGS_URL"] = w.URLs("/previous.json")[0]
			}
			requests, got := run(t, w, "- type: webhook\n  endPoint: FAR\n  "+names+"\n  "+c.channel, env, accept)
			if got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if diff := cmp.Diff(c.want, bodies(requests)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestMistakes holds that nothing is sent where the configuration, or a credential, is not what it must be.
func TestMistakes(t *testing.T) {
	const good = "- {name: good, type: slack, template: slack-messageCard, endPoint: FAR}\n"
	cases := map[string]struct{ channel, want string }{
		"NoList":         {"name: x", "want a list of channels"},
		"NoYAML":         {"- {name: x", "read YAML"},
		"UnknownType":    {good + "- type: pager", `there is no type "pager"; there are email, github`},
		"UnknownField":   {good + "- {type: slack, rulez: []}", `unknown field "rulez"`},
		"NoTemplate":     {good + "- {name: c, type: slack, endPoint: FAR}", `channel "c": template is not set`},
		"OtherTemplate":  {good + "- {name: c, type: slack, endPoint: FAR, template: none}", `there is no template "none"`},
		"Traversal":      {good + "- {name: c, type: slack, endPoint: FAR, template: ../x}", "is not a valid name of a template"},
		"BadTemplate":    {good + "- {name: c, type: slack, endPoint: FAR, templateText: '{{'}", "read template"},
		"TwoTemplates":   {good + "- {type: slack, endPoint: FAR, template: a, templateText: b}", "one is enough"},
		"Rule":           {good + "- {type: slack, rules: [{}]}", "rules: rule 0: matches is missing"},
		"RuleKey":        {good + "- {type: slack, rules: [{matches: {allOf: []}}]}", `not "allOf"`},
		"RuleState":      {good + "- {type: slack, rules: [{matches: {states: [old]}}]}", `not "old"`},
		"RuleNothing":    {good + "- {type: slack, rules: [{matches: {}}]}", "neither anyOf nor states"},
		"FixedToTrello":  {good + "- {type: trello, rules: [{matches: {states: [fixed]}}]}", "which the type trello cannot report"},
		"Variable":       {good + "- {name: c, type: slack, template: slack-messageCard, endPoint: NOPE}", `channel "c": environment variable NOPE is not set`},
		"NoEndPoint":     {good + "- {name: c, type: ms-teams, template: msteams-messageCard}", "endPoint is not set; it names the variable"},
		"EndPointOfJira": {good + "- {type: jira, endPoint: FAR}", "takes no endPoint"},
		"NoToken":        {good + "- {name: c, type: github}", "environment variable GITHUB_TOKEN is not set"},
		"NoRepository":   {good + "- {name: c, type: github, env: {GITHUB_TOKEN: FAR}}", `GITHUB_REPOSITORY is "", want owner/name`},
		"WebhookOnly":    {good + "- {type: slack, method: PUT}", "are for the type webhook"},
		"Method":         {good + "- {name: c, type: webhook, endPoint: FAR, templateText: x, method: GET}", "want POST, PUT or PATCH"},
		"Header":         {good + "- {name: c, type: webhook, endPoint: FAR, templateText: x, headers: {X-Key: NOPE}}", "header X-Key: environment variable NOPE is not set"},
		"Two":            {"- {name: a, type: github}\n- {name: b, type: trello}", `channel "a": environment variable GITHUB_TOKEN is not set (nor GITHUB_TOKEN_FILE); channel "b"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			requests, got := run(t, newWorld(t), c.channel, nil, accept)
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) || len(requests) != 0 {
				t.Errorf("exit code %d, %d requests, stderr %q, want %q", got.ExitCode, len(requests), got.Stderr, c.want)
			}
		})
	}
}

// TestAllAreTried holds that one channel's failure does not keep the others from hearing.
func TestAllAreTried(t *testing.T) {
	const channels = `
- {name: first, type: slack, template: slack-messageCard, endPoint: FAR}
- {name: second, type: mattermost, template: mattermost, endPoint: FAR}
- {name: third, type: ms-teams, template: msteams-messageCard, endPoint: FAR}
`
	requests, got := run(t, newWorld(t), channels, nil, func(n int, _ sdktest.Request) sdktest.Reply {
		if n == 1 {
			return sdktest.Reply{}
		}
		return sdktest.Reply{Status: http.StatusNotFound, Header: map[string]string{"Content-Type": "text/plain"}, Body: "no_service for /services/s3cr3tpath"}
	})
	if got.ExitCode == 0 || len(requests) != 3 {
		t.Fatalf("exit code %d, %d requests", got.ExitCode, len(requests))
	}
	for _, want := range []string{`channel "first": Slack at 127.0.0.1:`, "answers 404 Not Found: no_service", `; channel "third": Microsoft Teams at `} {
		if !strings.Contains(got.Stderr, want) {
			t.Errorf("no %q in %q", want, got.Stderr)
		}
	}
}

func TestErrored(t *testing.T) {
	cases := map[string]struct {
		channel string
		objects map[string][]byte
		want    []string // in the one request; nothing where none is wanted
	}{
		"Slack":      {"{type: slack, template: slack-messageCard, endPoint: FAR}", nil, []string{"A nmap security scan failed", "&lt;exit&gt; code 1 &amp; more"}},
		"Teams":      {"{type: ms-teams, template: msteams-messageCard, endPoint: FAR}", nil, []string{"A nmap security scan failed", "<exit> code 1 & more"}},
		"Mattermost": {"{type: mattermost, template: mattermost, endPoint: FAR}", nil, []string{"A nmap security scan failed", "<exit> code 1 & more"}},
		"EvenSo":     {"{type: slack, template: slack-messageCard, endPoint: FAR, skipNotificationOnZeroFindings: true, rules: [{matches: {anyOf: []}}]}", nil, []string{"failed"}},
		"OwnWords":   {"{type: slack, template: slack-messageCard, erroredTemplate: mattermost-errored, endPoint: FAR}", nil, []string{`{"text":"#### A nmap`}},
		"Skipped":    {"{type: slack, template: slack-messageCard, endPoint: FAR, skipErrored: true}", nil, nil},
		"Webhook":    {`{type: webhook, endPoint: FAR, templateText: '{"errored": {{ .errored }}, "n": {{ .count }}}'}`, nil, []string{`{"errored": true, "n": 0}`}},
		"WithSome":   {`{type: webhook, endPoint: FAR, templateText: '{"n": {{ .count }}}'}`, map[string][]byte{"/findings.json": []byte(threeFindings)}, []string{`{"n": 3}`}},
		"Broken":     {`{type: webhook, endPoint: FAR, templateText: '{"n": {{ .count }}}'}`, map[string][]byte{"/findings.json": []byte(`[{"name":`)}, []string{`{"n": 0}`}},
		"PagerDuty":  {"{type: pagerduty, env: {PAGERDUTY_ROUTING_KEY: FAR, PAGERDUTY_URL: FAR}}", map[string][]byte{"/findings.json": []byte(threeFindings)}, []string{`"summary":"Scan ns/nmap-x (nmap) is Errored"`, `"severity":"critical"`, "<exit> code 1"}},
		"Trello":     {"{type: trello, endPoint: FAR, env: {TRELLO_KEY: FAR, TRELLO_TOKEN: FAR, TRELLO_LIST: FAR}}", nil, []string{`"name":"Scan ns/nmap-x (nmap) is Errored"`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan = scanErrored
			delete(w.Objects, "/findings.json")
			maps.Copy(w.Objects, c.objects)
			requests, got := run(t, w, "- "+c.channel, map[string]string{"TRELLO_CARDS_ENDPOINT": "x"}, accept)
			if got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if (len(requests) == 0) != (c.want == nil) || len(requests) > 1 {
				t.Fatalf("%d requests", len(requests))
			}
			for _, want := range c.want {
				if !strings.Contains(string(requests[0].Body), want) {
					t.Errorf("no %q in %s", want, requests[0].Body)
				}
			}
		})
	}
}

// TestMissingFindingsAreAnError holds that findings which must be there are not taken for none.
func TestMissingFindingsAreAnError(t *testing.T) {
	w := newWorld(t)
	delete(w.Objects, "/findings.json")
	requests, got := run(t, w, "- {type: slack, template: slack-messageCard, endPoint: FAR}", nil, accept)
	if got.ExitCode == 0 || len(requests) != 0 {
		t.Errorf("exit code %d, %d requests: %s", got.ExitCode, len(requests), got.Stderr)
	}
}

// TestOwnTemplates reads a folder as the chart mounts it.
func TestOwnTemplates(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"mine.tmpl":              "text: {{ printf \"%s of %s\" .args.TEAM (index .findings 0).name | toJson }}",
		"slack-messageCard.tmpl": "text: mine, too",
		"old.njk":                "text: {{ scan.metadata.name }}",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"NOTIFICATION_TEMPLATES": folder, "TEAM": "x: y"}
	requests, got := run(t, newWorld(t), "- {type: slack, template: mine, endPoint: FAR}\n- {type: slack, template: slack-messageCard, endPoint: FAR}", env, accept)
	if diff := cmp.Diff([]string{`{"text":"x: y of a"}`, `{"text":"mine, too"}`}, bodies(requests)); diff != "" || got.ExitCode != 0 {
		t.Errorf("%s (-want +got):\n%s", got.Stderr, diff)
	}
	if _, got := run(t, newWorld(t), "- {type: slack, template: old, endPoint: FAR}", env, accept); !strings.Contains(got.Stderr, "old.njk is a Nunjucks template") {
		t.Errorf("stderr %q", got.Stderr)
	}
}

// hostile has everything that YAML, JSON, HTML, Markdown or Slack take for something else.
const hostile = "- a: b # \"c\" 'd' {e} [f] & <!channel> <b>|> \\ %g @h *i* `j`\n--- \u0000\u2028 \U0001F600"

// TestBuiltInTemplatesLinkNowhereElse: whatever a finding says, a message links to DefectDojo and nowhere else, and no
// text of a finding hides where it leads.
func TestBuiltInTemplatesLinkNowhereElse(t *testing.T) {
	files, err := os.ReadDir("message/templates")
	if err != nil {
		t.Fatal(err)
	}
	const masked = "[open](https://evil.example) <https://evil.example|open>"
	finding := fmt.Sprintf(`[{"name":%[1]q,"description":%[1]q,"severity":%[1]q,"location":%[1]q,"attributes":{"defectdojo.org/finding-url":"https://evil.example/finding/1"}},`+
		`{"name":"n","severity":"HIGH","attributes":{"defectdojo.org/finding-url":"javascript:alert(1)"}}]`, masked)
	scan := fmt.Sprintf(`{"metadata":{"name":"n"},"spec":{"scanType":"nmap"},"status":{"errorDescription":%[1]q,"findings":{"severities":{%[1]q:1},"categories":{%[1]q:2}}}}`, masked)
	for _, file := range files {
		t.Run(file.Name(), func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = scan, []byte(finding)
			env := map[string]string{"VULNMANAG_ENABLED": "true", "VULNMANAG_DASHBOARD_URL": "https://d", "VULNMANAG_DASHBOARD_FINDINGS_URL": "https://f", "DEFECTDOJO_URL": "https://dd.example.com"}
			requests, got := run(t, w, "- {type: slack, endPoint: FAR, template: "+strings.TrimSuffix(file.Name(), ".tmpl")+"}", env, accept)
			if got.ExitCode != 0 || len(requests) != 1 {
				t.Fatalf("%d requests: %s", len(requests), got.Stderr)
			}
			var sent any
			if err := json.Unmarshal(requests[0].Body, &sent); err != nil {
				t.Fatal(err)
			}
			var look func(key string, value any)
			look = func(key string, value any) {
				switch v := value.(type) {
				case map[string]any:
					for k, each := range v {
						look(k, each)
					}
				case []any:
					for _, each := range v {
						look(key, each)
					}
				case string:
					if key == "url" && strings.Contains(v, "evil") || strings.Contains(v, "javascript:") {
						t.Errorf("it links to %q", v)
					}
					if strings.HasPrefix(file.Name(), "email") { // text, or escaped for HTML
						return
					}
					// Code is not markup, and Slack has no such links.
					v = strings.ReplaceAll(v, "`"+masked+"`", "")
					if strings.Contains(v, "<https://evil") || strings.Contains(v, "](https://evil") && !strings.HasPrefix(file.Name(), "slack") {
						t.Errorf("%q hides where it leads", v)
					}
				}
			}
			look("", sent)
		})
	}
}

// TestBuiltInTemplates renders all with texts that must not change their shape, and with a Scan that has hardly anything.
func TestBuiltInTemplates(t *testing.T) {
	files, err := os.ReadDir("message/templates")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	n := string(encoded)
	scans := map[string]string{
		"Bare":      `{"metadata":{}}`,
		"Unreached": fmt.Sprintf(`{"metadata":{},"status":{"conditions":[{"type":"TargetReached","status":"False","message":%s}]}}`, n),
		"Nasty":     fmt.Sprintf(`{"metadata":{"name":%s,"namespace":%s,"creationTimestamp":%s},"spec":{"scanType":%s},"status":{"errorDescription":%s,"findings":{"severities":{%s:1},"categories":{%s:2}}}}`, n, n, n, n, n, n, n),
	}
	finding := fmt.Sprintf(`{"name":%s,"description":%s,"severity":%s,"location":%s,"attributes":{"defectdojo.org/finding-url":%s}}`, n, n, n, n, n)
	for _, file := range files {
		for name, scan := range scans {
			for _, findings := range []string{`[]`, "[{}," + finding + "]", string(sdktest.Findings(3000))} {
				t.Run(file.Name()+name, func(t *testing.T) {
					w := sdktest.New(t)
					w.Scan, w.Objects["/findings.json"] = scan, []byte(findings)
					env := map[string]string{"VULNMANAG_ENABLED": "true", "VULNMANAG_DASHBOARD_URL": "https://d/{{ uid }}?a=1&b=2", "VULNMANAG_DASHBOARD_FINDINGS_URL": "https://f"}
					requests, got := run(t, w, "- {type: slack, endPoint: FAR, template: "+strings.TrimSuffix(file.Name(), ".tmpl")+"}", env, accept)
					if got.ExitCode != 0 || len(requests) != 1 {
						t.Fatalf("%d requests: %s", len(requests), got.Stderr)
					}
					body := string(requests[0].Body)
					if !json.Valid(requests[0].Body) || strings.Contains(body, "%!") || strings.Contains(body, "<nil>") || strings.Contains(body, "<no value>") {
						t.Errorf("body %s", body)
					}
					if strings.HasPrefix(file.Name(), "slack") && strings.Contains(body, "<!channel>") {
						t.Errorf("a finding can call the whole channel: %s", body)
					}
					if says := strings.Contains(body, "Nothing was reached: "); says != (name == "Unreached" && !strings.Contains(file.Name(), "errored")) {
						t.Errorf("says that nothing was reached: %v, in %s", says, body)
					}
					var message struct {
						Blocks []any `json:"blocks"`
					}
					if err := json.Unmarshal(requests[0].Body, &message); err != nil || len(message.Blocks) > 50 {
						t.Errorf("%d blocks, %v", len(message.Blocks), err)
					}
				})
			}
		}
	}
}

func TestButtons(t *testing.T) {
	for enabled, want := range map[string]int{"true": 2, "TRUE": 2, "1": 2, "false": 0, "": 0} {
		env := map[string]string{"VULNMANAG_ENABLED": enabled, "VULNMANAG_DASHBOARD_URL": "https://d/{{ uid }}?a=1&b=2", "VULNMANAG_DASHBOARD_FINDINGS_URL": "https://f"}
		requests, got := run(t, newWorld(t), "- {type: ms-teams, endPoint: FAR, template: msteams-messageCard}", env, accept)
		if got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
		body := string(requests[0].Body)
		if n := strings.Count(body, "Action.OpenUrl"); n != want || want > 0 && !strings.Contains(body, `"https://d/u-1?a=1&b=2"`) {
			t.Errorf("%q: %d buttons, want %d: %s", enabled, n, want, body)
		}
	}
}
