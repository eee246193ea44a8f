// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/notification/rules"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
	"github.com/scanyard/scanyard/tests/testcluster/mailbox"
)

// network stands in for remote services of the internet: it keeps requests and says yes.
type network struct {
	mu       sync.Mutex
	requests []sent
}

type sent struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests = append(n.requests, sent{r.Method, r.URL.String(), r.Header.Clone(), body})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok")), Request: r}, nil
}

type fixture struct {
	Channel  json.RawMessage   `json:"channel"`
	Env      map[string]string `json:"env"`
	Scan     json.RawMessage   `json:"scan"`
	Findings json.RawMessage   `json:"findings"`
	Expected struct {
		Skipped  bool `json:"skipped"`
		Error    any  `json:"error"`
		Requests []struct {
			Method  string            `json:"method"`
			URL     string            `json:"url"`
			Headers map[string]string `json:"headers"`
			JSON    json.RawMessage   `json:"json"`
		} `json:"requests"`
		Mails []struct {
			SMTP    string `json:"smtp"`
			Message struct {
				To      string  `json:"to"`
				Subject string  `json:"subject"`
				Text    string  `json:"text"`
				HTML    string  `json:"html"`
				From    *string `json:"from"`
			} `json:"message"`
		} `json:"mails"`
	} `json:"expected"`
}

// credentials are the headers that a case must name to see them sent.
var credentials = []string{"Authorization", "X-Auth-Token", "X-User-Id", "Content-Type"}

func TestFixtureNotification(t *testing.T) {
	sdktest.Cases(t, "notification", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Scan, w.Objects["/findings.json"] = string(c.Scan), c.Findings
		far := &network{}
		w.Transport = far
		server := newMailbox(t, mailbox.Options{Host: "smtp.example.com"})
		env := map[string]string{"NOTIFICATION_CHANNELS": "[" + string(c.Channel) + "]", "NODE_EXTRA_CA_CERTS": server.caFile}
		maps.Copy(env, c.Env)
		got := w.Run(t, newHook(options{dial: server.Dial}), env)
		wantFailure := c.Expected.Error != nil && c.Expected.Error != false
		if failed := got.ExitCode != 0; failed != wantFailure {
			t.Fatalf("failed: %t, want %t: %s", failed, wantFailure, got.Stderr)
		}
		if silent := len(far.requests)+len(server.Mails()) == 0; c.Expected.Skipped && !silent {
			t.Error("something is sent, though nothing should be said")
		}
		if len(far.requests) != len(c.Expected.Requests) {
			t.Fatalf("%d requests, want %d", len(far.requests), len(c.Expected.Requests))
		}
		for i, want := range c.Expected.Requests {
			header := map[string]string{}
			for _, name := range append(slices.Collect(maps.Keys(want.Headers)), credentials...) {
				if value := far.requests[i].Header.Get(name); value != "" {
					header[http.CanonicalHeaderKey(name)] = value
				}
			}
			if diff := cmp.Diff(want.Headers, header); diff != "" {
				t.Errorf("request %d headers (-want +got):\n%s", i, diff)
			}
			if far.requests[i].Method != want.Method || far.requests[i].URL != want.URL {
				t.Errorf("request %d is %s %s, want %s %s", i, far.requests[i].Method, far.requests[i].URL, want.Method, want.URL)
			}
			if diff := cmp.Diff(withoutNothing(sdktest.JSON(t, want.JSON)), withoutNothing(sdktest.JSON(t, far.requests[i].Body))); diff != "" {
				t.Errorf("request %d body (-want +got):\n%s", i, diff)
			}
		}
		c.compareMails(t, server)
	})
}

func (c *fixture) compareMails(t *testing.T, server *testMailbox) {
	mails := server.Mails()
	if len(mails) != len(c.Expected.Mails) {
		t.Fatalf("%d mails, want %d", len(mails), len(c.Expected.Mails))
	}
	for i, want := range c.Expected.Mails {
		got := mails[i]
		if !strings.HasPrefix(want.SMTP, "smtp://"+got.User+":"+got.Password+"@") {
			t.Errorf("logged in as %s with %q, want what is in %s", got.User, got.Password, want.SMTP)
		}
		if diff := cmp.Diff([]string{want.Message.To}, got.Recipients); diff != "" {
			t.Errorf("recipients (-want +got):\n%s", diff)
		}
		if want.Message.From != nil && got.From.Name != *want.Message.From && got.From.Address != *want.Message.From {
			t.Errorf("from %v, want %q", got.From, *want.Message.From)
		}
		if diff := cmp.Diff([]string{want.Message.Subject, want.Message.Text, want.Message.HTML}, []string{got.Subject, got.Text, got.HTML}); diff != "" {
			t.Errorf("subject, text, HTML (-want +got):\n%s", diff)
		}
	}
}

// withoutNothing drops members that are null, which count as absent.
func withoutNothing(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
		for key, member := range v {
			v[key] = withoutNothing(member)
		}
	case []any:
		for i, element := range v {
			v[i] = withoutNothing(element)
		}
	}
	return value
}

func TestFixtureNotificationRules(t *testing.T) {
	type ruleCase struct {
		Rules    json.RawMessage `json:"rules"`
		Finding  json.RawMessage `json:"finding"`
		Expected struct {
			Matches bool `json:"matches"`
		} `json:"expected"`
	}
	sdktest.Cases(t, "notification-rules", func(t *testing.T, c ruleCase) {
		for _, text := range [][]byte{c.Rules, bytes.ReplaceAll(c.Rules, []byte("\n"), nil)} {
			meets, err := rules.Parse(text, false)
			if err != nil {
				t.Fatal(err)
			}
			value, err := finding.DecodeValue(c.Finding, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := meets.Match(value, ""); got != c.Expected.Matches {
				t.Errorf("matches: %t, want %t", got, c.Expected.Matches)
			}
		}
	})
}
