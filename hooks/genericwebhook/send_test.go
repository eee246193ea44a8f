// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func accept(int, sdktest.Request) sdktest.Reply { return sdktest.Reply{Status: http.StatusAccepted} }

// sent runs the hook with settings and returns the bodies that arrive.
func sent(t *testing.T, w *sdktest.World, env map[string]string) (bodies []string, requests []sdktest.Request, got sdktest.Result) {
	t.Helper()
	far := w.NewRemote(t, accept)
	if env["WEBHOOK_URL"] == "" {
		env["WEBHOOK_URL"] = far.URL + "/in"
	}
	got = w.Run(t, Hook(), env)
	for _, r := range far.Requests() {
		bodies = append(bodies, string(r.Body))
	}
	return bodies, far.Requests(), got
}

func TestBodies(t *testing.T) {
	const scan = `{"metadata":{"name":"n"}}`
	const findings = `[{"id":"1","name":"a \"q\" <x>"},{"id":"2","name":"b"},{"id":"3","name":"c"}]`
	cases := map[string]struct {
		env      map[string]string
		findings string
		want     []string
		kind     string
		reason   string
	}{
		"Whole":          {nil, findings, []string{`{"scan":` + scan + `,"findings":[{"id":"1","name":"a \"q\" <x>"},{"id":"2","name":"b"},{"id":"3","name":"c"}]}`}, "", ""},
		"Batches":        {map[string]string{"WEBHOOK_BATCH_SIZE": "2"}, findings, []string{`{"scan":` + scan + `,"findings":[{"id":"1","name":"a \"q\" <x>"},{"id":"2","name":"b"}],"batch":{"number":1}}`, `{"scan":` + scan + `,"findings":[{"id":"3","name":"c"}],"batch":{"number":2}}`}, "", ""},
		"EmptyBatch":     {map[string]string{"WEBHOOK_BATCH_SIZE": "2"}, "[]", []string{`{"scan":` + scan + `,"findings":[],"batch":{"number":1}}`}, "", "the receiver hears of every Scan"},
		"Template":       {map[string]string{"WEBHOOK_TEMPLATE": `{"text":{{printf "%s: %d" .scan.metadata.name (len .findings) | toJson}}}`}, findings, []string{`{"text":"n: 3"}`}, "application/json", ""},
		"TemplateText":   {map[string]string{"WEBHOOK_TEMPLATE": `{{range .findings}}{{.name}};{{end}}`, "WEBHOOK_CONTENT_TYPE": "text/plain; charset=utf-8"}, findings, []string{`a "q" <x>;b;c;`}, "text/plain; charset=utf-8", ""},
		"TemplateSilent": {map[string]string{"WEBHOOK_TEMPLATE": ` {{with .findings}}{"n":{{len .}}}{{end}} `}, "[]", nil, "", "a template can decide that there is nothing to say"},
		"TemplateBatch":  {map[string]string{"WEBHOOK_TEMPLATE": `[{{.batch.number}},{{len .findings}}]`, "WEBHOOK_BATCH_SIZE": "2"}, findings, []string{"[1,2]", "[2,1]"}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = scan, []byte(c.findings)
			env := map[string]string{}
			maps.Copy(env, c.env)
			got, requests, result := sent(t, w, env)
			if result.ExitCode != 0 {
				t.Fatal(result.Stderr)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if c.kind != "" && requests[0].Header.Get("Content-Type") != c.kind {
				t.Errorf("content type %q, want %q", requests[0].Header.Get("Content-Type"), c.kind)
			}
		})
	}
}

func TestTemplateFails(t *testing.T) {
	cases := map[string]struct {
		env   map[string]string
		count int
		want  string
	}{
		"NotReadable":   {map[string]string{"WEBHOOK_TEMPLATE": "{{"}, 1, "WEBHOOK_TEMPLATE: read template"},
		"NoJSON":        {map[string]string{"WEBHOOK_TEMPLATE": `{"a": {{(index .findings 0).name}}}`}, 1, "WEBHOOK_TEMPLATE makes no valid JSON"},
		"Environment":   {map[string]string{"WEBHOOK_TEMPLATE": `{{env "WEBHOOK_PASSWORD"}}`}, 1, `function "env" not defined`},
		"TooMany":       {map[string]string{"WEBHOOK_TEMPLATE": "x"}, 30_000, "set WEBHOOK_BATCH_SIZE"},
		"TypeAlone":     {map[string]string{"WEBHOOK_CONTENT_TYPE": "text/plain"}, 1, "is set without WEBHOOK_TEMPLATE"},
		"TypeNonsense":  {map[string]string{"WEBHOOK_TEMPLATE": "x", "WEBHOOK_CONTENT_TYPE": "/"}, 1, "want a media type"},
		"BatchNonsense": {map[string]string{"WEBHOOK_BATCH_SIZE": "many"}, 1, `WEBHOOK_BATCH_SIZE is "many"`},
		"SecretShort":   {map[string]string{"WEBHOOK_SIGNING_SECRET": "s3cr3t"}, 1, "WEBHOOK_SIGNING_SECRET is too short"},
		"FileMissing":   {map[string]string{"WEBHOOK_PASSWORD_FILE": "/does/not/exist"}, 1, "read WEBHOOK_PASSWORD_FILE"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Objects["/findings.json"] = sdktest.Findings(c.count)
			bodies, _, got := sent(t, w, c.env)
			if got.ExitCode != exitcode.Configuration || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") || len(bodies) != 0 {
				t.Errorf("exit code %d, %d requests, stderr %q, want %q", got.ExitCode, len(bodies), got.Stderr, c.want)
			}
		})
	}
}

// TestSecretsFromFiles signs, and authenticates, with what is mounted.
func TestSecretsFromFiles(t *testing.T) {
	w := sdktest.New(t)
	w.Clock.Set(time.Now())
	w.Objects["/findings.json"] = sdktest.Findings(3)
	far := w.NewRemote(t, accept)
	env := map[string]string{"WEBHOOK_BATCH_SIZE": "2"}
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G"
	for name, content := range map[string]string{
		"WEBHOOK_URL": far.URL, "WEBHOOK_USER": "me", "WEBHOOK_PASSWORD": "p4ss", "WEBHOOK_SIGNING_SECRET": secret,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		env[name+"_FILE"] = path
	}
	if got := w.Run(t, Hook(), env); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	requests := far.Requests()
	if len(requests) != 2 || requests[0].Header.Get("Webhook-Id") == requests[1].Header.Get("Webhook-Id") {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if err := webhook.Verify(r.Body, r.Header); err != nil {
			t.Error(err)
		}
		if r.Header.Get("Authorization") != "Basic bWU6cDRzcw==" || r.Header.Get("Idempotency-Key") != r.Header.Get("Webhook-Id") {
			t.Errorf("header %v", r.Header)
		}
	}
}

// TestKeys holds that nothing but what is sent and where to decides about the key.
func TestKeys(t *testing.T) {
	key := func(env map[string]string, scan string) string {
		w := sdktest.New(t)
		w.Scan = scan
		far := &receiver{answers: answers(200)}
		w.Transport = far
		all := map[string]string{"WEBHOOK_URL": "http://example.com/a"}
		maps.Copy(all, env)
		if got := w.Run(t, Hook(), all); got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
		return far.requests[0].Header.Get("Idempotency-Key")
	}
	const scan, later = `{"metadata":{"uid":"u","name":"n"},"status":{}}`, `{"metadata":{"uid":"u","name":"n"},"status":{"state":"Errored"}}`
	if key(nil, scan) != key(nil, later) {
		t.Error("another attempt has another key")
	}
	seen := map[string]string{}
	for name, env := range map[string]map[string]string{
		"Plain": nil, "OtherURL": {"WEBHOOK_URL": "http://example.com/b"}, "OtherHook": {"HOOK_NAME": "second"},
		"Template": {"WEBHOOK_TEMPLATE": "1"}, "OtherTemplate": {"WEBHOOK_TEMPLATE": "2"}, "Batch": {"WEBHOOK_BATCH_SIZE": "5"},
	} {
		k := key(env, scan)
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
}

// TestKilledEverywhere delivers 10,000 findings to receivers with and without a memory for keys.
func TestKilledEverywhere(t *testing.T) {
	const count = 10_000
	receiver := func(remembers bool) func() (func(sdktest.Request) sdktest.Reply, func() error) {
		return func() (func(sdktest.Request) sdktest.Reply, func() error) {
			arrived, known := sdktest.Tally{}, map[string]bool{}
			take := func(r sdktest.Request) sdktest.Reply {
				key := r.Header.Get("Idempotency-Key")
				if remembers && known[key] {
					return sdktest.Reply{Status: http.StatusOK}
				}
				known[key] = true
				var payload struct{ Findings []struct{ ID string } }
				if err := json.Unmarshal(r.Body, &payload); err != nil {
					return sdktest.Reply{Status: http.StatusBadRequest, Header: map[string]string{"Content-Type": "text/plain"}, Body: err.Error()}
				}
				for _, f := range payload.Findings {
					arrived[f.ID]++
				}
				return sdktest.Reply{Status: http.StatusAccepted}
			}
			return take, func() error {
				if remembers {
					return arrived.Exactly(count)
				}
				return arrived.AtLeast(count)
			}
		}
	}
	for _, size := range []string{"", "1000"} {
		for _, remembers := range []bool{true, false} {
			t.Run(fmt.Sprintf("BatchSize%sRemembers%t", size, remembers), func(t *testing.T) {
				sdktest.Delivery{
					Hook: Hook(),
					Env: func(url string) map[string]string {
						return map[string]string{"WEBHOOK_URL": url, "WEBHOOK_BATCH_SIZE": size}
					},
					Prepare: func(w *sdktest.World) { w.Objects["/findings.json"] = sdktest.Findings(count) },
					Remote:  receiver(remembers),
				}.KillEverywhere(t)
			})
		}
	}
}
