// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const (
	scanText = `{"metadata":{"uid":"u-1","name":"nmap-x","namespace":"ns","labels":{"b":"1","a":"2"}},"spec":{"scanType":"zap-automation-framework","parameters":["-Pn"]},` +
		`"status":{"conditions":[{"type":"Parsed","status":"True","reason":"x","message":"","lastTransitionTime":"2034-12-31T23:59:58Z"}]}}`
	sharedKey = "aGVsbG8taS1hbS1hLXRlc3Qta2V5"
	secret    = "s3cr3t&more"
)

// azure stands in for a workspace behind either interface, as strict as their documentation says they are.
type azure struct {
	arrived sdktest.Tally
	records []map[string]any
	tokens  int
	// revoked tokens are refused although their time has not come.
	revoked map[string]bool
	// lasts is how many seconds tokens are good for.
	lasts int
	posts int
}

func newAzure() *azure {
	return &azure{arrived: sdktest.Tally{}, revoked: map[string]bool{}, lasts: 3599}
}

func refusal(status int, text string) sdktest.Reply {
	return sdktest.Reply{Status: status, Body: text, Header: map[string]string{"Content-Type": "application/json"}}
}

func (a *azure) take(r sdktest.Request) sdktest.Reply {
	switch r.URL {
	case "/api/logs?api-version=2016-04-01":
		return a.collect(r)
	case "/tenant/oauth2/v2.0/token":
		return a.token(r)
	case "/dataCollectionRules/dcr-1/streams/Custom-Findings?api-version=2023-01-01":
		for n := range a.tokens {
			if token := fmt.Sprintf("token-%d", n+1); r.Header.Get("Authorization") == "Bearer "+token && !a.revoked[token] {
				return a.store(r, 1_000_000, http.StatusNoContent)
			}
		}
		return refusal(http.StatusUnauthorized, `{"error":{"code":"InvalidToken","message":"expired"}}`)
	}
	return refusal(http.StatusNotFound, "{}")
}

func (a *azure) collect(r sdktest.Request) sdktest.Reply {
	key, err := base64.StdEncoding.DecodeString(sharedKey)
	if err != nil {
		return refusal(http.StatusTeapot, "")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "POST\n%d\napplication/json\nx-ms-date:%s\n/api/logs", len(r.Body), r.Header.Get("X-Ms-Date"))
	if r.Header.Get("Authorization") != "SharedKey w-1:"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		return refusal(http.StatusForbidden, `{"Error":"InvalidAuthorization"}`)
	}
	if name := r.Header.Get("Log-Type"); name == "" || len(name) > 100 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || strings.Contains(name, "-") {
		return refusal(http.StatusBadRequest, `{"Error":"InvalidLogType"}`)
	}
	return a.store(r, 30_000_000, http.StatusOK)
}

func (a *azure) token(r sdktest.Request) sdktest.Reply {
	form, err := url.ParseQuery(string(r.Body))
	want := url.Values{"grant_type": {"client_credentials"}, "client_id": {"client"}, "client_secret": {secret}, "scope": {"https://monitor.azure.com//.default"}}
	if err != nil || !cmp.Equal(want, form) || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return refusal(http.StatusUnauthorized, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret `+form.Get("client_secret")+` provided."}`)
	}
	a.tokens++
	return refusal(http.StatusOK, fmt.Sprintf(`{"token_type":"Bearer","expires_in":%d,"access_token":"token-%d"}`, a.lasts, a.tokens))
}

func (a *azure) store(r sdktest.Request, largest, status int) sdktest.Reply {
	a.posts++
	var records []map[string]any
	switch err := json.Unmarshal(r.Body, &records); {
	case r.Header.Get("Content-Type") != "application/json" || err != nil || len(records) == 0:
		return refusal(http.StatusBadRequest, `{"error":{"code":"InvalidBody"}}`)
	case len(r.Body) > largest:
		return refusal(http.StatusRequestEntityTooLarge, `{"error":{"code":"ContentLengthLimitExceeded"}}`)
	}
	for _, record := range records {
		a.arrived[fmt.Sprint(record["id"])]++
	}
	a.records = append(a.records, records...)
	return sdktest.Reply{Status: status}
}

// settings are those of both interfaces.
var settings = map[string]func(url string) map[string]string{
	"Collector": func(url string) map[string]string {
		return map[string]string{
			"MONITOR_ADDRESS": url, "MONITOR_WORKSPACE_ID": "w-1", "MONITOR_SHARED_KEY": sharedKey, "MONITOR_LOGTYPE_CLEAN": "true",
		}
	},
	"Ingestion": func(url string) map[string]string {
		return map[string]string{
			"MONITOR_INGESTION_ENDPOINT": url + "/", "MONITOR_INGESTION_RULE": "dcr-1", "MONITOR_INGESTION_STREAM": "Custom-Findings",
			"MONITOR_AUTHORITY": url, "MONITOR_TENANT_ID": "tenant", "MONITOR_CLIENT_ID": "client", "MONITOR_CLIENT_SECRET": secret,
		}
	},
}

func TestRecords(t *testing.T) {
	for name, env := range settings {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan = scanText
			w.Objects["/findings.json"] = []byte(`[{"id":"1", "scan_id":"mine", "n": 1.50}]`)
			a := newAzure()
			far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return a.take(r) })
			if got := w.Run(t, Hook(), env(far.URL)); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			want := map[string]any{
				"id": "1", "n": 1.5, "scan_id": "u-1", "scan_name": "nmap-x", "scan_type": "zap-automation-framework",
				"scan_parameters": []any{"-Pn"}, "scan_labels": map[string]any{"a": "2", "b": "1"},
			}
			if name == "Ingestion" {
				want["TimeGenerated"] = "2034-12-31T23:59:58.000Z"
			} else if table := far.Requests()[0].Header.Get("Log-Type"); table != "SCB_zap_automation_framework" {
				t.Errorf("table %q", table)
			}
			if diff := cmp.Diff([]map[string]any{want}, a.records); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKilledEverywhere loses nothing; what was sent and not answered for comes twice, as neither interface knows it again.
func TestKilledEverywhere(t *testing.T) {
	const count = 10_000
	for name, env := range settings {
		t.Run(name, func(t *testing.T) {
			sdktest.Delivery{
				Hook: Hook(), Env: env,
				Prepare: func(w *sdktest.World) { w.Scan, w.Objects["/findings.json"] = scanText, sdktest.Findings(count) },
				Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
					a := newAzure()
					return a.take, func() error { return a.arrived.AtLeast(count) }
				},
			}.KillEverywhere(t)
		})
	}
}

// TestFaults has each fault now and then. A record comes twice only where the answer to its request was no 2xx, or lost.
func TestFaults(t *testing.T) {
	const count = 10_000
	for name, env := range settings {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = scanText, sdktest.Findings(count)
			a, lost := newAzure(), map[string]int{}
			far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
				switch n % 7 {
				case 0:
					return sdktest.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}}
				case 1:
					return sdktest.Reply{Status: 500}
				case 2:
					before := maps.Clone(a.arrived)
					a.take(r)
					for id, times := range a.arrived {
						lost[id] += times - before[id]
					}
					return sdktest.Reply{Status: 503}
				case 3:
					return sdktest.Reply{Hang: time.Minute}
				case 4:
					reply := a.take(r)
					reply.Half = reply.Body == "" && reply.Status != http.StatusNoContent // half an answer, of one that says enough
					return reply
				}
				return a.take(r)
			})
			all := env(far.URL)
			all["DELIVERY_BUDGET"], all["DELIVERY_ATTEMPTS"] = "24h", "10"
			if got := w.Run(t, Hook(), all); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			for id, times := range lost {
				a.arrived[id] -= times
			}
			if err := a.arrived.Exactly(count); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTokens counts how many are asked for.
func TestTokens(t *testing.T) {
	cases := map[string]struct {
		count  int
		before func(a *azure, n int)
		want   int
		says   string
		reason string
	}{
		"Once":    {20_000, func(*azure, int) {}, 1, "", "a token is good for an hour"},
		"Old":     {20_000, func(a *azure, _ int) { a.lasts = 300 }, 7, "", "and for no longer"},
		"Revoked": {20_000, func(a *azure, n int) { a.revoked["token-1"] = n > 1 }, 2, "", "unless it is withdrawn"},
		"Never":   {1, func(a *azure, n int) { a.revoked["token-1"] = true }, 1, "Azure Monitor at 127.0.0.1", "a token that was just made is not the fault"},
		"Nothing": {0, func(*azure, int) {}, 0, "", "nothing to send needs no token"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = scanText, sdktest.Findings(c.count)
			a := newAzure()
			far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
				c.before(a, n)
				return a.take(r)
			})
			got := w.Run(t, Hook(), settings["Ingestion"](far.URL))
			if failed := got.ExitCode != 0; failed != (c.says != "") || !strings.Contains(got.Stderr, c.says) || a.tokens != c.want {
				t.Errorf("%s: exit code %d, %d tokens, stderr %q, want %d", c.reason, got.ExitCode, a.tokens, got.Stderr, c.want)
			}
			if err := a.arrived.Exactly(c.count); err != nil && c.says == "" {
				t.Error(err)
			}
		})
	}
}

// TestTooLarge sends a finding that is refused alone, among others that are taken.
func TestTooLarge(t *testing.T) {
	w := sdktest.New(t)
	w.Scan = scanText
	w.Objects["/findings.json"] = []byte(`[{"id":"finding-0"},{"id":"huge","x":"` + strings.Repeat("x", 1<<20) + `"},{"id":"finding-1"}]`)
	a := newAzure()
	far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return a.take(r) })
	got := w.Run(t, Hook(), settings["Ingestion"](far.URL))
	if want := "refuses 1 of 3 findings, such as finding huge: it is too large for Azure Monitor (413)"; got.ExitCode == 0 || !strings.Contains(got.Stderr, want) {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
	if err := a.arrived.Exactly(2); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	cases := map[string]struct {
		like string
		env  map[string]string
		want string
	}{
		"Nothing":         {"", nil, "MONITOR_WORKSPACE_ID is not set"},
		"NoSharedKey":     {"Collector", map[string]string{"MONITOR_SHARED_KEY": ""}, "MONITOR_SHARED_KEY is not set"},
		"KeyNoBase64":     {"Collector", map[string]string{"MONITOR_SHARED_KEY": "p4ss*"}, "MONITOR_SHARED_KEY is not base64"},
		"WorkspaceOdd":    {"Collector", map[string]string{"MONITOR_ADDRESS": "", "MONITOR_WORKSPACE_ID": "evil.example/"}, "MONITOR_WORKSPACE_ID makes no address"},
		"AddressOdd":      {"Collector", map[string]string{"MONITOR_ADDRESS": "w"}, "MONITOR_ADDRESS makes no address"},
		"CleanOdd":        {"Collector", map[string]string{"MONITOR_LOGTYPE_CLEAN": "1"}, "MONITOR_LOGTYPE_CLEAN is neither"},
		"WrongKey":        {"Collector", map[string]string{"MONITOR_SHARED_KEY": "cDRzcw"}, "answers 403 Forbidden"},
		"WrongTable":      {"Collector", map[string]string{"MONITOR_LOGTYPE_CLEAN": "false"}, "InvalidLogType"},
		"NoRule":          {"Ingestion", map[string]string{"MONITOR_INGESTION_RULE": ""}, "MONITOR_INGESTION_RULE is not set"},
		"NoClientSecret":  {"Ingestion", map[string]string{"MONITOR_CLIENT_SECRET": ""}, "MONITOR_CLIENT_SECRET is not set"},
		"EndpointOdd":     {"Ingestion", map[string]string{"MONITOR_INGESTION_ENDPOINT": "x"}, "MONITOR_INGESTION_ENDPOINT is not an http"},
		"AuthorityOdd":    {"Ingestion", map[string]string{"MONITOR_AUTHORITY": "x"}, "MONITOR_AUTHORITY is not an http"},
		"WrongSecret":     {"Ingestion", map[string]string{"MONITOR_CLIENT_SECRET": "p4ssw0rd"}, "get token: Microsoft Entra at 127.0.0.1"},
		"WrongScope":      {"Ingestion", map[string]string{"MONITOR_SCOPE": "x"}, "get token: Microsoft Entra at 127.0.0.1"},
		"OtherStream":     {"Ingestion", map[string]string{"MONITOR_INGESTION_STREAM": "x"}, "answers 404 Not Found"},
		"EndpointIsFirst": {"Ingestion", map[string]string{"MONITOR_WORKSPACE_ID": "w-1", "MONITOR_SHARED_KEY": "*"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = scanText, sdktest.Findings(1)
			a := newAzure()
			far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return a.take(r) })
			env := map[string]string{}
			if like := settings[c.like]; like != nil {
				env = like(far.URL)
			}
			maps.Copy(env, c.env)
			got := w.Run(t, Hook(), env)
			if failed := got.ExitCode != 0; failed != (c.want != "") || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
			for _, hidden := range []string{"p4ss", secret, "token-1", sharedKey} {
				if strings.Contains(got.Stderr, hidden) {
					t.Errorf("stderr shows %s: %s", hidden, got.Stderr)
				}
			}
		})
	}
}

// TestTokenAnswers holds that an answer without a token is said to be one.
func TestTokenAnswers(t *testing.T) {
	for text, want := range map[string]string{"{}": "the response has no token", "<html>": "the response is not the expected JSON"} {
		w := sdktest.New(t)
		w.Objects["/findings.json"] = sdktest.Findings(1)
		far := w.NewRemote(t, func(int, sdktest.Request) sdktest.Reply { return sdktest.Reply{Body: text} })
		got := w.Run(t, Hook(), settings["Ingestion"](far.URL))
		if got.ExitCode == 0 || !strings.Contains(got.Stderr, "get token: "+want) {
			t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, want)
		}
	}
}

func TestLogType(t *testing.T) {
	cases := map[string]struct {
		clean    bool
		scanType string
		want     string
	}{
		"AsItIs": {false, "ssh-audit", "SCB_ssh-audit"},
		"Clean":  {true, "ssh-audit/é", "SCB_ssh_audit__"},
		"Long":   {true, strings.Repeat("x", 200), "SCB_" + strings.Repeat("x", 96)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (&collector{prefix: "SCB", clean: c.clean}).logType(c.scanType); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
