// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/notification/senders"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// TestAnswers holds what each remote service says about a message to what the hook makes of it. Only the last attempt is asked about.
func TestAnswers(t *testing.T) {
	const slack, teams, rocket = "{type: slack, template: slack-messageCard, endPoint: FAR}", "{type: ms-teams, template: msteams-messageCard, endPoint: FAR}", "{type: rocket-chat, template: rocket-chat, endPoint: URL, env: {ROCKET_CHAT_AUTH_TOKEN: FAR, ROCKET_CHAT_USER_ID: FAR}}"
	plain := map[string]string{"Content-Type": "text/plain"}
	ok := sdktest.Reply{Body: "ok"}
	cases := map[string]struct {
		channel string
		replies []sdktest.Reply
		want    string // in stderr; nothing for success
	}{
		"Taken":           {slack, []sdktest.Reply{ok}, ""},
		"Busy":            {slack, []sdktest.Reply{{Status: 503}, {Status: 500}, ok}, ""},
		"Limited":         {slack, []sdktest.Reply{{Status: 429, Header: map[string]string{"Retry-After": "30"}}, ok}, ""},
		"HalfAnAnswer":    {slack, []sdktest.Reply{{Half: true}}, ""},
		"BrokenOff":       {slack, []sdktest.Reply{{Drop: true}, ok}, ""},
		"Hanging":         {slack, []sdktest.Reply{{Hang: time.Minute}, ok}, ""},
		"Refused":         {slack, []sdktest.Reply{{Status: 400, Header: plain, Body: "invalid_blocks"}}, "answers 400 Bad Request: invalid_blocks"},
		"Dead":            {slack, slices.Repeat([]sdktest.Reply{{Status: 502}}, 6), "given up after 6 attempts: Slack at 127.0.0.1"},
		"Redirect":        {slack, []sdktest.Reply{{Status: 302, Header: map[string]string{"Location": "http://else.where/s3cr3t"}}}, "a redirect to http://else.where"},
		"TeamsSaysOne":    {teams, []sdktest.Reply{{Body: "1"}}, ""},
		"TeamsAccepted":   {teams, []sdktest.Reply{{Status: 202}}, ""},
		"TeamsPassing":    {teams, []sdktest.Reply{{Body: "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId x"}, {Body: "1"}}, ""},
		"TeamsFailed":     {teams, []sdktest.Reply{{Body: "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 403"}}, "answers 200: it does not post the message"},
		"RocketTaken":     {rocket, []sdktest.Reply{{Body: `{"success":true}`}}, ""},
		"RocketNoChannel": {rocket, []sdktest.Reply{{Body: `{"success":false,"error":"[error-invalid-channel]"}`}}, "it does not post the message: [error-invalid-channel]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			far := w.NewRemote(t, func(n int, _ sdktest.Request) sdktest.Reply { return c.replies[min(n, len(c.replies)-1)] })
			got := w.Run(t, Hook(), map[string]string{
				"FAR": far.URL + "/services/s3cr3tpath", "DELIVERY_BUDGET": "1h",
				"NOTIFICATION_CHANNELS": "- " + strings.Replace(c.channel, "URL", far.URL, 1),
			})
			// A remote service that hangs goes on letting time pass for a moment, which can cost the next attempt its patience.
			if n := len(far.Requests()); n != len(c.replies) && (name != "Hanging" || n < len(c.replies)) {
				t.Errorf("%d requests, want %d", len(far.Requests()), len(c.replies))
			}
			if failed := got.ExitCode != 0; failed != (c.want != "") || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
			if name == "Limited" && !cmp.Equal(w.Clock.Pauses(), []time.Duration{30 * time.Second}) {
				t.Errorf("pauses %v", w.Clock.Pauses())
			}
		})
	}
}

// TestSlackApp holds the channel of the Scan, and answers that say no with a status of 200.
func TestSlackApp(t *testing.T) {
	cases := map[string]struct {
		annotation string
		replies    []string
		requests   int
		want       string
	}{
		"Annotation": {"#team", []string{`{"ok":true}`}, 1, ""},
		"Default":    {"", []string{`{"ok":true}`}, 1, ""},
		"Refused":    {"", []string{`{"ok":false,"error":"channel_not_found"}`}, 1, "Slack at slack.com answers 200: it does not post the message: channel_not_found"},
		"Limited":    {"", []string{`{"ok":false,"error":"ratelimited"}`, `{"ok":true}`}, 2, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Scan = strings.Replace(scanOK, `"uid"`, `"annotations":{"`+senders.AnnotationSlack+`":"`+c.annotation+`"},"uid"`, 1)
			far := w.NewRemote(t, func(n int, _ sdktest.Request) sdktest.Reply { return sdktest.Reply{Body: c.replies[n]} })
			w.Transport = detour{far.URL}
			got := w.Run(t, Hook(), map[string]string{
				"SLACK_APP_TOKEN": "xoxb-s3cr3t", "SLACK_DEFAULT_CHANNEL": "#all",
				"NOTIFICATION_CHANNELS": "- {name: app, type: slack-app, template: slack-messageCard}",
			})
			if (got.ExitCode != 0) != (c.want != "") || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") || len(far.Requests()) != c.requests {
				t.Fatalf("exit code %d, %d requests, stderr %q", got.ExitCode, len(far.Requests()), got.Stderr)
			}
			var message struct {
				Channel string `json:"channel"`
			}
			want := "#all"
			if c.annotation != "" {
				want = c.annotation
			}
			if err := json.Unmarshal(far.Requests()[0].Body, &message); err != nil || message.Channel != want {
				t.Errorf("channel %q, %v, want %q", message.Channel, err, want)
			}
		})
	}
}

// detour sends all requests to one server.
type detour struct{ to string }

func (d detour) RoundTrip(r *http.Request) (*http.Response, error) {
	target, err := url.Parse(d.to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
	return http.DefaultTransport.RoundTrip(r)
}

// tracker is a remote service that opens issues, in the way of one product.
type tracker struct {
	kind   string
	issues map[string]string // what it is about: open or closed
	// twice is what was opened a second time.
	twice []string
	texts []string
	limit int
}

func newTracker(kind string) *tracker {
	return &tracker{kind: kind, issues: map[string]string{}, limit: 100}
}

func (r *tracker) env(address string) map[string]string {
	return map[string]string{
		"NOTIFICATION_CHANNELS": "- {name: issues, type: " + r.kind + ", rules: [{matches: {states: [new, known, fixed]}}]}",
		"GITHUB_TOKEN":          "s3cr3t", "GITHUB_REPOSITORY": "o/r", "GITHUB_URL": address, "GITHUB_LABELS": "sec, scanner",
		"GITLAB_TOKEN": "s3cr3t", "GITLAB_PROJECT": "g/p", "GITLAB_URL": address, "GITLAB_LABELS": "sec, scanner",
		"JIRA_URL": address, "JIRA_TOKEN": "s3cr3t", "JIRA_PROJECT": "SEC", "JIRA_LABELS": "sec, scanner",
		"PAGERDUTY_ROUTING_KEY": "s3cr3t", "PAGERDUTY_URL": address + "/v2/enqueue",
	}
}

func (r *tracker) open(key, text string) {
	if _, there := r.issues[key]; there {
		r.twice = append(r.twice, text)
	}
	r.issues[key] = "open"
	r.texts = append(r.texts, text)
}

// take is the part of each product's API that the hook uses.
func (r *tracker) take(q sdktest.Request) sdktest.Reply {
	var body map[string]any
	if len(q.Body) > 0 {
		if err := json.Unmarshal(q.Body, &body); err != nil {
			return sdktest.Reply{Status: 400, Header: map[string]string{"Content-Type": "text/plain"}, Body: err.Error()}
		}
	}
	target, err := url.Parse(q.URL)
	if err != nil {
		return sdktest.Reply{Status: 400}
	}
	switch path := target.Path; {
	case path == "/v2/enqueue":
		key := body["dedup_key"].(string)
		if body["event_action"] == "resolve" {
			r.issues[key] = "closed"
		} else if r.issues[key] != "open" {
			r.open(key, body["payload"].(map[string]any)["summary"].(string))
		}
		return sdktest.Reply{Status: 202, Body: `{"status":"success"}`}
	case path == "/repos/o/r/issues" || target.EscapedPath() == "/api/v4/projects/g%2Fp/issues":
		if q.Method == http.MethodGet {
			return r.list(target.Query())
		}
		text, _ := body["body"].(string)
		if text == "" {
			text, _ = body["description"].(string)
		}
		r.open(keyIn(text), body["title"].(string))
		return sdktest.Reply{Status: 201, Body: fmt.Sprintf(`{"number":%d,"iid":%[1]d,"labels":["scanyard"]}`, len(r.issues))}
	case strings.HasPrefix(path, "/repos/o/r/issues/"), strings.HasPrefix(path, "/api/v4/projects/g/p/issues/"):
		n, err := strconv.Atoi(path[strings.LastIndexByte(path, '/')+1:])
		if err != nil || body["state"] != "closed" && body["state_event"] != "close" {
			return sdktest.Reply{Status: 404}
		}
		r.issues[r.sorted()[n-1]] = "closed"
		return sdktest.Reply{Body: "{}"}
	case path == "/rest/api/2/search": // Data Center; the path of Cloud is not there
		_, label, _ := strings.Cut(target.Query().Get("jql"), `labels = "`)
		if _, there := r.issues[strings.TrimSuffix(label, `"`)]; there {
			return sdktest.Reply{Body: `{"issues":[{"key":"SEC-1"}]}`}
		}
		return sdktest.Reply{Body: `{"issues":[]}`}
	case path == "/rest/api/2/issue":
		fields := body["fields"].(map[string]any)
		for _, label := range fields["labels"].([]any) {
			if strings.HasPrefix(label.(string), "scanyard-") {
				r.open(label.(string), fields["summary"].(string))
			}
		}
		return sdktest.Reply{Status: 201, Body: `{"key":"SEC-1"}`}
	}
	return sdktest.Reply{Status: 404}
}

// keyIn is what the last marker of an issue's text names.
func keyIn(text string) string {
	const mark = "<!-- scanyard: "
	key, _, _ := strings.Cut(text[strings.LastIndex(text, mark)+len(mark):], " -->")
	return key
}

func (r *tracker) sorted() []string {
	var keys []string
	for key := range r.issues {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// list answers pages of issues, numbered by the order of their keys.
func (r *tracker) list(query url.Values) sdktest.Reply {
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil || query.Get("labels") != "scanyard" {
		return sdktest.Reply{Status: 400}
	}
	keys := r.sorted()
	first := min((page-1)*r.limit, len(keys))
	last := min(first+r.limit, len(keys))
	list := []map[string]any{}
	for i, key := range keys[first:last] {
		state := r.issues[key]
		if state == "open" && r.kind == "gitlab" {
			state = "opened"
		}
		text := "text <!-- scanyard: 00000000-0000-0000-0000-000000000000 --> of a scanner\n<!-- scanyard: " + key + " -->\n"
		list = append(list, map[string]any{"number": first + i + 1, "iid": first + i + 1, "state": state, "body": text, "description": text})
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		return sdktest.Reply{Status: 500}
	}
	header := map[string]string{}
	if last < len(keys) {
		header["Link"], header["X-Next-Page"] = `<http://x>; rel="next"`, strconv.Itoa(page+1)
	}
	return sdktest.Reply{Body: string(encoded), Header: header}
}

var trackerKinds = []string{"github", "gitlab", "jira", "pagerduty"}

// TestTrackers opens what is new once, over several runs, and closes what is gone if the tracker can.
func TestTrackers(t *testing.T) {
	for _, kind := range trackerKinds {
		t.Run(kind, func(t *testing.T) {
			far := newTracker(kind)
			far.limit = 2
			runs := []struct {
				previous, findings string
				open, closed       int
			}{
				{"", threeFindings, 3, 0},
				{"", threeFindings, 3, 0},
				{threeFindings, `[{"id":"7","name":"c","severity":"LOW","category":"Host","location":"tcp://h","attributes":{}},{"name":"new"}]`, 2, 2},
			}
			if kind == "jira" {
				runs[2].open, runs[2].closed = 4, 0
			}
			for i, r := range runs {
				w := newWorld(t)
				w.Objects["/findings.json"], w.Objects["/previous.json"] = []byte(r.findings), []byte(r.previous)
				server := w.NewRemote(t, func(_ int, q sdktest.Request) sdktest.Reply { return far.take(q) })
				env := far.env(server.URL)
				if kind == "jira" {
					env["NOTIFICATION_CHANNELS"] = "- {name: issues, type: jira}"
				}
				if r.previous != "" {
					env["PREVIOUS_FINDINGS_URL"] = w.URLs("/previous.json")[0]
				}
				if got := w.Run(t, Hook(), env); got.ExitCode != 0 {
					t.Fatalf("run %d: %s", i, got.Stderr)
				}
				count := map[string]int{}
				for _, state := range far.issues {
					count[state]++
				}
				if count["open"] != r.open || count["closed"] != r.closed || len(far.twice) != 0 {
					t.Errorf("run %d: %v, twice %v, want %d open and %d closed", i, far.issues, far.twice, r.open, r.closed)
				}
			}
			if diff := cmp.Diff([]string{"[HIGH] a at tcp://h:1", "[LOW] b at tcp://h:2", "[LOW] c at tcp://h", "[UNKNOWN] new"}, far.texts); diff != "" {
				t.Errorf("titles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTrackersWithFaults lets every request fail in every way, before or after it was done: each finding is reported once.
func TestTrackersWithFaults(t *testing.T) {
	faults := map[string]sdktest.Reply{
		"Limited": {Status: 429, Header: map[string]string{"Retry-After": "7"}}, "Error": {Status: 500}, "Busy": {Status: 503},
		"Half": {Half: true}, "Drop": {Drop: true}, "Hang": {Hang: time.Minute},
	}
	for _, kind := range trackerKinds {
		for name, fault := range faults {
			for _, done := range []bool{false, true} {
				if done && name == "Limited" {
					continue // who limits does nothing
				}
				t.Run(fmt.Sprintf("%s%sDone%t", kind, name, done), func(t *testing.T) {
					far := newTracker(kind)
					w := newWorld(t)
					failed := map[string]int{}
					server := w.NewRemote(t, func(_ int, q sdktest.Request) sdktest.Reply {
						key := q.Method + string(q.Body)
						if failed[key]++; failed[key] > 1 {
							return far.take(q)
						}
						if done {
							reply := far.take(q)
							if fault.Half {
								reply.Half = true
								return reply
							}
						}
						return fault
					})
					env := far.env(server.URL)
					// A remote service that hangs lets time pass until it notices that the client is gone.
					env["DELIVERY_ATTEMPTS"], env["DELIVERY_BUDGET"] = "50", "240h"
					if kind == "jira" {
						env["NOTIFICATION_CHANNELS"] = "- {name: issues, type: jira}"
					}
					if got := w.Run(t, Hook(), env); got.ExitCode != 0 {
						t.Fatal(got.Stderr)
					}
					if len(far.issues) != 3 || len(far.twice) != 0 {
						t.Errorf("%d issues, twice %v", len(far.issues), far.twice)
					}
				})
			}
		}
	}
}

// TestTrackersKilled ends the hook at each request and starts it again: each finding is reported once.
func TestTrackersKilled(t *testing.T) {
	const count = 8
	for _, kind := range trackerKinds {
		t.Run(kind, func(t *testing.T) {
			var far *tracker
			sdktest.Delivery{
				Hook: Hook(),
				Env: func(address string) map[string]string {
					env := far.env(address)
					if kind == "jira" {
						env["NOTIFICATION_CHANNELS"] = "- {name: issues, type: jira}"
					}
					return env
				},
				Prepare: func(w *sdktest.World) { w.Scan, w.Objects["/findings.json"] = scanOK, sdktest.Findings(count) },
				Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
					far = newTracker(kind)
					return far.take, func() error {
						if len(far.issues) != count || len(far.twice) != 0 {
							return fmt.Errorf("%d issues, %d twice, want %d", len(far.issues), len(far.twice), count)
						}
						return nil
					}
				},
			}.KillEverywhere(t)
		})
	}
}

// TestChannelsKilled ends the hook at each request of several channels. What remembers keys hears once, others at least once.
func TestChannelsKilled(t *testing.T) {
	sdktest.Delivery{
		Hook: Hook(),
		Env: func(address string) map[string]string {
			return map[string]string{
				"CHAT": address + "/chat", "WEBHOOK": address + "/webhook", "EACH": address + "/each", "KEY": "k",
				"PAGERDUTY_ROUTING_KEY": "k", "PAGERDUTY_URL": address + "/v2/enqueue",
				"NOTIFICATION_CHANNELS": `
- name: few
  type: slack
  template: slack-individual-findings-with-defectdojo
  endPoint: CHAT
  rules: &few [{matches: {anyOf: [{attributes: {port: 0}}, {attributes: {port: 1}}, {attributes: {port: 2}}]}}]
- {name: a, type: slack, template: slack-messageCard, endPoint: CHAT}
- {name: b, type: webhook, endPoint: WEBHOOK, templateText: '{"n": {{ .count }}}', headers: {X-Key: KEY}}
- {name: c, type: webhook, endPoint: EACH, perFinding: true, templateText: '{{ toJson .finding }}', rules: *few}
- {name: d, type: pagerduty, rules: *few}
`,
			}
		},
		Prepare: func(w *sdktest.World) { w.Scan, w.Objects["/findings.json"] = scanOK, sdktest.Findings(10_000) },
		Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
			chats, whole, keys, events, arrived := 0, 0, map[string]bool{}, map[string]bool{}, sdktest.Tally{}
			take := func(r sdktest.Request) sdktest.Reply {
				key := r.Header.Get("Idempotency-Key")
				again := key != "" && keys[key]
				keys[key] = true
				var body struct {
					ID       string `json:"id"`
					DedupKey string `json:"dedup_key"`
				}
				if err := json.Unmarshal(r.Body, &body); err != nil {
					return sdktest.Reply{Status: 400}
				}
				switch {
				case r.URL == "/chat":
					chats++
				case r.URL == "/v2/enqueue":
					events[body.DedupKey] = true
				case again:
				case r.URL == "/webhook" && r.Header.Get("X-Key") == "k" && string(r.Body) == `{"n": 10000}`:
					whole++
				case r.URL == "/each":
					arrived[body.ID]++
				}
				return sdktest.Reply{}
			}
			return take, func() error {
				if chats < 2 || whole != 1 || len(events) != 3 {
					return fmt.Errorf("%d chats, %d webhooks, %d events, want at least 2, 1 and 3", chats, whole, len(events))
				}
				return arrived.Exactly(3)
			}
		},
	}.KillEverywhere(t)
}

// TestOneRefusedOfMany holds that a finding that is refused does not keep the others back, and that a bad token does.
func TestOneRefusedOfMany(t *testing.T) {
	far := newTracker("github")
	w := newWorld(t)
	refuse := true
	server := w.NewRemote(t, func(_ int, q sdktest.Request) sdktest.Reply {
		if refuse && strings.Contains(string(q.Body), "[LOW] b") {
			return sdktest.Reply{Status: 422, Header: map[string]string{"Content-Type": "application/json"}, Body: `{"message":"Validation Failed"}`}
		}
		if !refuse {
			return sdktest.Reply{Status: 403, Body: `{"message":"Resource not accessible by personal access token"}`}
		}
		return far.take(q)
	})
	got := w.Run(t, Hook(), far.env(server.URL))
	if got.ExitCode == 0 || len(far.issues) != 2 || !strings.Contains(got.Stderr, "refuses 1 of 3 findings, such as finding 2: GitHub at") || !strings.Contains(got.Stderr, "Validation Failed") {
		t.Errorf("exit code %d, %d issues: %s", got.ExitCode, len(far.issues), got.Stderr)
	}
	refuse = false
	before := len(server.Requests())
	got = w.Run(t, Hook(), far.env(server.URL))
	if got.ExitCode == 0 || len(server.Requests()) != before+1 || !strings.Contains(got.Stderr, "answers 403: Forbidden") || !strings.Contains(got.Stderr, "not accessible") || strings.Contains(got.Stderr, "s3cr3t") {
		t.Errorf("exit code %d, %d requests: %s", got.ExitCode, len(server.Requests())-before, got.Stderr)
	}
}

// TestGitHubLimits waits as long as the server asks.
func TestGitHubLimits(t *testing.T) {
	far := newTracker("github")
	w := newWorld(t)
	server := w.NewRemote(t, func(n int, q sdktest.Request) sdktest.Reply {
		switch n {
		case 0:
			return sdktest.Reply{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0"}}
		case 2:
			return sdktest.Reply{Status: 403, Header: map[string]string{"Retry-After": "50"}, Body: `{"message":"You have exceeded a secondary rate limit"}`}
		}
		return far.take(q)
	})
	got := w.Run(t, Hook(), far.env(server.URL))
	if got.ExitCode != 0 || len(far.issues) != 3 || !cmp.Equal(w.Clock.Pauses(), []time.Duration{time.Minute, 50 * time.Second}) {
		t.Errorf("exit code %d, %d issues, pauses %v: %s", got.ExitCode, len(far.issues), w.Clock.Pauses(), got.Stderr)
	}
}

// TestOverride lays a template over what trackers are sent, without losing what issues are found by.
func TestOverride(t *testing.T) {
	cases := map[string]struct {
		kind, template string
		want           []string
	}{
		"GitHub":    {"github", `{"title": {{ printf "mine: %s" .title | toJson }}, "body": "b", "labels": ["x"], "assignees": ["me"]}`, []string{`"title":"mine: [HIGH] a at tcp://h:1"`, `"labels":["x","scanyard"]`, `"assignees":["me"]`, `"body":"b\n<!-- scanyard: `}},
		"GitLab":    {"gitlab", `{"confidential": true}`, []string{`"confidential":true`, `"title":"[HIGH] a`, `"labels":["sec","scanner","scanyard"]`}},
		"Jira":      {"jira", `fields: {priority: {name: {{ if eq .finding.severity "HIGH" }}High{{ else }}Low{{ end }}}}`, []string{`"priority":{"name":"High"}`, `"project":{"key":"SEC"}`, `"issuetype":{"name":"Task"}`, `{noformat}`}},
		"PagerDuty": {"pagerduty", `payload: {summary: {{ toJson .finding.name }}}`, []string{`"summary":"a"`, `"severity":"critical"`, `"source":"tcp://h:1"`, `"custom_details":{"id":"1"`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			far := newTracker(c.kind)
			w := newWorld(t)
			server := w.NewRemote(t, func(_ int, q sdktest.Request) sdktest.Reply { return far.take(q) })
			env := far.env(server.URL)
			encoded, err := json.Marshal([]any{map[string]any{"name": "i", "type": c.kind, "templateText": c.template}})
			if err != nil {
				t.Fatal(err)
			}
			env["NOTIFICATION_CHANNELS"] = string(encoded)
			if got := w.Run(t, Hook(), env); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			for _, r := range server.Requests() {
				if r.Method != http.MethodPost {
					continue
				}
				for _, want := range c.want {
					if !strings.Contains(string(r.Body), want) {
						t.Errorf("no %s in %s", want, r.Body)
					}
				}
				return
			}
			t.Error("nothing was posted")
		})
	}
}

// TestTrello holds labels and prefix, and an address of its own.
func TestTrello(t *testing.T) {
	w := newWorld(t)
	requests, got := run(t, w, "- {type: trello, endPoint: TRELLO_CARDS_ENDPOINT, env: {TRELLO_TOKEN: OTHER_TOKEN}, maxFindings: 2}", map[string]string{
		"TRELLO_KEY": "k", "OTHER_TOKEN": "t", "TRELLO_LIST": "l", "TRELLO_LABELS": "x,y", "TRELLO_POS": "bottom", "TRELLO_TITLE_PREFIX": "scan: ",
		"TRELLO_CARDS_ENDPOINT": w.NewRemote(t, accept).URL,
	}, accept)
	if got.ExitCode != 0 || len(requests) != 0 || !strings.Contains(got.Stderr, "2 of 3 findings are reported") {
		t.Errorf("exit code %d, %d requests at the wrong place: %s", got.ExitCode, len(requests), got.Stderr)
	}
}
