// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/podkit/redact"
)

// TestLevels holds what each of the three levels makes of one text.
func TestLevels(t *testing.T) {
	for in, want := range map[string]struct{ urls, text, document string }{
		"GET http://a/b?X-Sig=c0ffee: refused": {"GET http://a/b?… refused", "GET http://a/b?… refused", "GET http://a/b?REDACTED refused"},
		"unknown command a?X-Sig=c0ffee":       {"unknown command a?…", "unknown command a?…", "unknown command a?X-Sig=c0ffee"},
		"who are you? nobody":                  {"who are you? nobody", "who are you? nobody", "who are you? nobody"},
		"https://me:pw@proxy:3128/x":           {"https://…@proxy:3128/x", "https://…@proxy:3128/x", "https://REDACTED@proxy:3128/x"},
		"token=abc, then":                      {"token=abc, then", "token=…, then", "token=REDACTED, then"},
		`{"api_key": "abc"}`:                   {`{"api_key": "abc"}`, `{"api_key": "…"}`, `{"api_key": REDACTED}`},
		"Authorization: Bearer abcdefgh":       {"Authorization: Bearer abcdefgh", "Authorization: …", "Authorization: REDACTED"},
		"sent bearer abcdefgh":                 {"sent bearer abcdefgh", "sent bearer …", "sent bearer REDACTED"},
		"unauthorized: access denied":          {"unauthorized: access denied", "unauthorized: access denied", "unauthorized: REDACTED denied"},
		"pushed with ghp_0123456789abcdef":     {"pushed with ghp_0123456789abcdef", "pushed with …", "pushed with REDACTED"},
		"curl -u me:pw -H 'X-A: b'":            {"curl -u me:pw -H 'X-A: b'", "curl -u me:pw -H 'X-A: b'", "curl -u REDACTED -H REDACTED"},
		"-----BEGIN PRIVATE KEY-----\nabc":     {"-----BEGIN PRIVATE KEY-----\nabc", "…", "REDACTED"},
	} {
		if got := redact.URLs(in); got != want.urls {
			t.Errorf("URLs of %q: %q, want %q", in, got, want.urls)
		}
		if got := redact.Text(in); got != want.text {
			t.Errorf("Text of %q: %q, want %q", in, got, want.text)
		}
		if got := redact.Document(in); got != want.document {
			t.Errorf("Document of %q: %q, want %q", in, got, want.document)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"password": true, "MY_API_KEY": true, "name": false, "parameters": false} {
		if got := redact.IsName(name); got != want {
			t.Errorf("name %q: %v", name, got)
		}
		if got := redact.IsFlag("--" + name); got != want || redact.IsFlag(name) {
			t.Errorf("flag %q: %v", name, got)
		}
	}
}

func TestSecretsOfARequest(t *testing.T) {
	target, err := url.Parse("https://me:us3r-t0ken@host/hooks/p4th-t0ken?key=qu3ry-s3cret")
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Basic bWU6YjRzaWMtcDRzcw=="}, "X-Key": {"h34der-k3y"}, "User-Agent": {"agent"}}
	secrets := redact.OfRequest(target, header, "b0dy-s3cret", "no")
	got := secrets.Text("us3r-t0ken p4th-t0ken qu3ry-s3cret b4sic-p4ss bWU6YjRzaWMtcDRzcw== h34der-k3y b0dy-s3cret; hooks of host: no agent")
	if want := strings.Repeat("… ", 6) + "…; hooks of host: no agent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := redact.Of("s3cret", "s3cret-and-more").Text("s3cret-and-more s3cret"); got != "… …" {
		t.Errorf("%q", got)
	}
}

func TestURLPrintsNoQuery(t *testing.T) {
	const u = redact.URL("https://me:c0ffee@store.example:9000/bucket/key?X-Amz-Signature=c0ffee#c0ffee")
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, u); strings.Contains(got, "c0ffee") || !strings.Contains(got, "store.example:9000/bucket/key") {
			t.Errorf("%s: %s", verb, got)
		}
	}
	if got, err := json.Marshal(map[string]any{"u": u}); err != nil || string(got) != `{"u":"https://store.example:9000/bucket/key"}` {
		t.Errorf("%s, %v", got, err)
	}
	if got := redact.URL("%zz?c0ffee").String(); got != "(unreadable URL)" {
		t.Error(got)
	}
	for _, bad := range []redact.URL{"", "x?c0ffee", "ftp://a/b", "http://?c0ffee", "http://a b/?c0ffee", "%zz?c0ffee"} {
		if err := bad.Check(); err == nil || strings.Contains(err.Error(), "c0ffee") {
			t.Errorf("%q: %v", string(bad), err)
		}
	}
	if err := u.Check(); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepTheirChain(t *testing.T) {
	err := fmt.Errorf("store: %w", &url.Error{Op: "Get", URL: "http://a/b?s=c0ffee", Err: io.ErrUnexpectedEOF})
	if got := redact.Error(err); got.Error() != `store: Get "http://a/b?…": unexpected EOF` || !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("%v", got)
	}
	if redact.Error(nil) != nil {
		t.Error("an error of nothing")
	}
	if got := redact.WithoutURL(err); got != io.ErrUnexpectedEOF { //nolint:errorlint // nothing is left around it
		t.Errorf("%v", got)
	}
}
