// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/session"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// provider gives a token for the code "good".
type provider struct {
	begin error
	state string
}

var errProvider = errors.New("the provider is away: secret-of-the-provider")

func (p *provider) Begin(_ context.Context, a *session.Attempt) (string, error) {
	p.state = a.State
	return "https://provider.example/authorize", p.begin
}

func (p *provider) Finish(_ context.Context, _ *session.Attempt, code string) (string, time.Time, error) {
	if code != "good" {
		return "", time.Time{}, errProvider
	}
	return "known", noon.Add(time.Hour), nil
}

// door is a console that one browser stands before.
type door struct {
	t        *testing.T
	app      *App
	provider *provider
	cookies  []*http.Cookie
	failures []error
	ways     []string
}

func newDoor(t *testing.T, change func(*Options)) *door {
	t.Helper()
	keeper, err := session.NewKeeper("console", [][]byte{bytes.Repeat([]byte{7}, session.KeySize)}, false, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, provider: &provider{}}
	o := Options{
		Sessions: keeper, Guard: &session.Guard{}, Tokens: true, Provider: d.provider, Now: func() time.Time { return noon },
		As: func(*session.Session) (*cluster.Viewer, error) { return nil, cluster.ErrSignIn },
		Check: func(_ context.Context, token string) (string, error) {
			switch {
			case token == "known" || strings.HasPrefix(token, "eyJ") || strings.HasPrefix(token, "long"):
				return "kim", nil
			case token == "away":
				return "", apierrors.NewServiceUnavailable("away")
			}
			return "", apierrors.NewUnauthorized("no such token")
		},
		Failed:   func(_ *http.Request, err error) { d.failures = append(d.failures, err) },
		SignedIn: func(way string, ok bool) { d.ways = append(d.ways, way+" "+strconv.FormatBool(ok)) },
	}
	if change != nil {
		change(&o)
	}
	if d.app, err = New(o); err != nil {
		t.Fatal(err)
	}
	return d
}

// ask makes a request as a browser does, which keeps cookies.
func (d *door) ask(method, path string, form url.Values) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range d.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	d.app.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		for i, other := range d.cookies {
			if other.Name == c.Name {
				d.cookies = append(d.cookies[:i], d.cookies[i+1:]...)
				break
			}
		}
		if c.MaxAge > 0 {
			d.cookies = append(d.cookies, c)
		}
	}
	return w
}

// session is that of the browser; nil if there is none.
func (d *door) session() *session.Session {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for _, c := range d.cookies {
		r.AddCookie(c)
	}
	s, ok := d.app.Sessions.Read(r)
	if !ok {
		return nil
	}
	return s
}

func jwt(claims string) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestSignInWithTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*Options)
		token, next string
		code        int
		leads, says string
		ends        time.Duration
		failures    int
		reason      string
	}{
		"Known":    {token: " known\n", next: "/scans?ns=a", code: http.StatusSeeOther, leads: "/scans?ns=a", ends: session.Lifetime, reason: "space around it comes from copying"},
		"Expiring": {token: jwt(`{"exp":` + strconv.FormatInt(noon.Add(time.Hour).Unix(), 10) + `}`), code: http.StatusSeeOther, leads: "/", ends: time.Hour, reason: "a session is no longer than its token"},
		"Lasting":  {token: jwt(`{"exp":` + strconv.FormatInt(noon.Add(99*time.Hour).Unix(), 10) + `}`), code: http.StatusSeeOther, leads: "/", ends: session.Lifetime, reason: "and no longer than sessions are"},
		"Claims":   {token: jwt(`not JSON`), code: http.StatusSeeOther, leads: "/", ends: session.Lifetime, reason: "what a token is, the API server says"},
		"Foreign":  {token: "known", next: "https://evil.example/", code: http.StatusSeeOther, leads: "/", ends: session.Lifetime, reason: "nobody is led elsewhere"},
		"Slashes":  {token: "known", next: "//evil.example/", code: http.StatusSeeOther, leads: "/", ends: session.Lifetime, reason: "which is elsewhere as well"},
		"Refused":  {token: "wrong", next: "/scans", code: http.StatusForbidden, says: "does not take this token", reason: "where to go on is kept for another try"},
		"Away":     {token: "away", code: http.StatusBadGateway, says: "does not answer", failures: 1, reason: "that is not the fault of who signs in"},
		"Off":      {change: func(o *Options) { o.Tokens = false }, token: "known", code: http.StatusForbidden, says: "takes no tokens", reason: "whoever posts one all the same"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t, tc.change)
			w := d.ask(http.MethodPost, "/login", url.Values{"token": {tc.token}, "next": {tc.next}})
			body := w.Body.String()
			if w.Code != tc.code || w.Header().Get("Location") != tc.leads || !strings.Contains(body, tc.says) || len(d.failures) != tc.failures {
				t.Errorf("%s: %d to %q, %d failures\n%s", tc.reason, w.Code, w.Header().Get("Location"), len(d.failures), body)
			}
			if tc.code == http.StatusForbidden && tc.next != "" && !strings.Contains(body, `value="`+tc.next+`"`) {
				t.Errorf("%s: %s", tc.reason, body)
			}
			s := d.session()
			if (s != nil) != (tc.ends > 0) || s != nil && (s.User != "kim" || !s.Ends.Equal(noon.Add(tc.ends))) {
				t.Errorf("%s: the session is %+v", tc.reason, s)
			}
			if strings.Contains(body, tc.token) {
				t.Error("the page has the token")
			}
		})
	}
}

func TestTokensThatAreTooLong(t *testing.T) {
	var token strings.Builder
	token.WriteString("long")
	for i := range 600 {
		token.WriteString(base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(i * 7919 * 104729))))
	}
	d := newDoor(t, nil)
	w := d.ask(http.MethodPost, "/login", url.Values{"token": {token.String()}})
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "more groups than cookies hold") || d.session() != nil {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

func TestTriesAreBounded(t *testing.T) {
	d := newDoor(t, nil)
	last := 0
	for range atOnce + 1 {
		last = d.ask(http.MethodPost, "/login", url.Values{"token": {"wrong"}}).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the last try of many answers %d", last)
	}
	for _, path := range []string{"/login/provider", "/login/callback?code=good&state=x"} {
		if code := d.ask(http.MethodGet, path, nil).Code; code != http.StatusTooManyRequests && code != http.StatusBadRequest {
			t.Errorf("%s answers %d", path, code)
		}
	}
}

func TestSignInAtTheProvider(t *testing.T) {
	for name, tc := range map[string]struct {
		begin  error
		state  string
		query  string
		code   int
		leads  string
		failed int
		ways   string
	}{
		"Good":     {query: "code=good", code: http.StatusSeeOther, leads: "/scans?ns=a", ways: "provider true"},
		"Denied":   {query: "error=access_denied", code: http.StatusForbidden, ways: "provider false"},
		"Stranger": {state: "another", query: "code=good", code: http.StatusBadRequest, ways: "provider false"},
		"Broken":   {query: "code=bad", code: http.StatusBadGateway, failed: 1, ways: "provider false"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t, nil)
			if w := d.ask(http.MethodGet, "/login/provider?next=%2Fscans%3Fns%3Da", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "https://provider.example/authorize" {
				t.Fatalf("it begins with %d", w.Code)
			}
			state := d.provider.state
			if tc.state != "" {
				state = tc.state
			}
			callback := "/login/callback?" + tc.query + "&state=" + url.QueryEscape(state)
			w := d.ask(http.MethodGet, callback, nil)
			if w.Code != tc.code || w.Header().Get("Location") != tc.leads || len(d.failures) != tc.failed || strings.Join(d.ways, ", ") != tc.ways {
				t.Errorf("%d to %q, %d failures, %s", w.Code, w.Header().Get("Location"), len(d.failures), d.ways)
			}
			if strings.Contains(w.Body.String(), "secret-of-the-provider") {
				t.Error("the page has what only the log is for")
			}
			if s := d.session(); (s != nil) != (tc.leads != "") || s != nil && !s.Ends.Equal(noon.Add(time.Hour)) {
				t.Errorf("the session is %+v", s)
			}
			if w := d.ask(http.MethodGet, callback, nil); w.Code != http.StatusBadRequest {
				t.Errorf("the same callback again answers %d", w.Code)
			}
		})
	}
	away := newDoor(t, nil)
	away.provider.begin = errProvider
	if w := away.ask(http.MethodGet, "/login/provider", nil); w.Code != http.StatusBadGateway || len(away.failures) != 1 || strings.Contains(w.Body.String(), "secret-of") {
		t.Errorf("a provider that is away answers %d", w.Code)
	}
	long := newDoor(t, nil)
	if w := long.ask(http.MethodGet, "/login/provider?next=%2Ffindings%3Fq%3D"+jwt(strings.Repeat("x1y2", 2000)), nil); w.Code != http.StatusSeeOther {
		t.Errorf("a long address answers %d", w.Code)
	}
	none := newDoor(t, func(o *Options) { o.Provider = nil })
	if code := none.ask(http.MethodGet, "/login/provider", nil).Code; code != http.StatusNotFound {
		t.Errorf("a console without a provider answers %d", code)
	}
}

func TestOneTimeCodes(t *testing.T) {
	code := session.NewCode(func() time.Time { return noon })
	d := newDoor(t, func(o *Options) { o.Code, o.Tokens, o.Provider = code, false, nil })
	text := code.Text()
	if w := d.ask(http.MethodGet, "/login?code=wrong", nil); w.Code != http.StatusOK || d.session() != nil || !strings.Contains(w.Body.String(), "scanyard console") {
		t.Errorf("a wrong code answers %d", w.Code)
	}
	if w := d.ask(http.MethodGet, "/login?code="+text, nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || d.session() == nil {
		t.Errorf("the code answers %d", w.Code)
	}
	d.cookies = nil
	if w := d.ask(http.MethodGet, "/login?code="+text, nil); w.Code != http.StatusOK || d.session() != nil {
		t.Errorf("the code opens twice: %d", w.Code)
	}
	if got := strings.Join(d.ways, ", "); got != "code false, code true, code false" {
		t.Errorf("told are %s", got)
	}
}
