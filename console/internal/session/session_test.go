// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func newKeeper(t *testing.T, now *time.Time, keys ...[]byte) *Keeper {
	t.Helper()
	k, err := NewKeeper("console", keys, true, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// noise is a text that cannot be made shorter than the token of a provider can.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random, text := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// carried is a request with the cookies of an answer.
func carried(w *httptest.ResponseRecorder) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	return r
}

func TestSessionsAreSealed(t *testing.T) {
	now := noon
	old, both := newKeeper(t, &now, key(1)), newKeeper(t, &now, key(2), key(1))
	w := httptest.NewRecorder()
	if err := old.Write(w, New("kim", "secret-token", now)); err != nil {
		t.Fatal(err)
	}
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != int(Lifetime/time.Second) {
		t.Errorf("the cookie is %+v", cookie)
	}
	if strings.Contains(cookie.Value, "kim") || strings.Contains(cookie.Value, "secret-token") {
		t.Error("the cookie can be read")
	}
	r := carried(w)
	s, ok := both.Read(r)
	if !ok || s.User != "kim" || s.Token != "secret-token" {
		t.Fatalf("a session of the key before is %+v, %v", s, ok)
	}
	if _, ok := newKeeper(t, &now, key(2)).Read(r); ok {
		t.Error("a session of a key that is gone opens")
	}
	if !s.Owns(s.CSRF) || s.Owns("") || s.Owns(s.CSRF+"x") {
		t.Error("forms of others are taken for those of the session")
	}
	now = noon.Add(Lifetime)
	if _, ok := both.Read(r); ok {
		t.Error("a session lasts for ever")
	}
}

func TestForgedCookiesAreNoSessions(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	for _, value := range []string{"", "x", "AAAA", strings.Repeat("A", 200), "!!", "1.", "1.AAAA", "0.AAAA", "2.AAAA", "99.AAAA", "-1.AAAA"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: "console", Value: value})
		if _, ok := k.Read(r); ok {
			t.Errorf("%q is a session", value)
		}
	}
	if _, ok := k.Read(httptest.NewRequest(http.MethodGet, "/", nil)); ok {
		t.Error("no cookie is a session")
	}
}

func TestSessionsFitIntoCookies(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	large := New("kim", noise(maxSession), now)
	if err := k.Write(httptest.NewRecorder(), large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	two := New("kim", noise(partSize+200), now)
	w := httptest.NewRecorder()
	if err := k.Write(w, two); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.Result().Cookies() {
		if len(c.Name)+len(c.Value) > 4096 {
			t.Errorf("%s has %d bytes: browsers would not keep it", c.Name, len(c.Value))
		}
	}
	r := carried(w)
	if s, ok := k.Read(r); !ok || s.Token != two.Token || len(r.Cookies()) != 2 {
		t.Errorf("a session of %d cookies is %v", len(r.Cookies()), ok)
	}
	first := httptest.NewRequest(http.MethodGet, "/", nil)
	first.AddCookie(r.Cookies()[0])
	if _, ok := k.Read(first); ok {
		t.Error("half a session is one")
	}
	again := httptest.NewRecorder()
	if err := k.Write(again, New("kim", "short", now)); err != nil {
		t.Fatal(err)
	}
	small := carried(again)
	small.AddCookie(r.Cookies()[1]) // of the larger session before
	if s, ok := k.Read(small); !ok || s.Token != "short" {
		t.Errorf("a small session after a large one is %+v, %v", s, ok)
	}
}

// What stands before a console may take no more than 8 KiB of headers, and a browser sends some of its own.
func TestCookiesTogetherFitIntoHeaders(t *testing.T) {
	now := noon
	k, err := NewKeeper("__Host-scanyard-console", [][]byte{key(1)}, true, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	// fullest is the answer with the largest that is taken.
	fullest := func(write func(w http.ResponseWriter, n int) error) (w *httptest.ResponseRecorder) {
		for n := 100; ; n += 10 {
			next := httptest.NewRecorder()
			err := write(next, n)
			switch {
			case errors.Is(err, ErrTooLarge) && w != nil:
				return w
			case err != nil:
				t.Fatal(err)
			}
			w = next
		}
	}
	s := fullest(func(w http.ResponseWriter, n int) error { return k.Write(w, New("kim", noise(n), now)) })
	own := fullest(func(w http.ResponseWriter, n int) error {
		return k.WriteBoards(w, New("kim", "", now), []Board{{"Monday", []Filter{{"High", noise(n)}}}})
	})
	attempt := fullest(func(w http.ResponseWriter, n int) error { return k.WriteAttempt(w, NewAttempt(noise(n), now)) })
	for name, with := range map[string][]*httptest.ResponseRecorder{"signed in": {s, own}, "signing in": {own, attempt}} {
		header := 0
		for _, w := range with {
			for _, c := range carried(w).Cookies() {
				header += len(c.Name) + len("=; ") + len(c.Value)
			}
		}
		if header > 7<<10 {
			t.Errorf("%s: %d bytes of cookies", name, header)
		}
	}
}

// A board that people make has room for more than one page of them.
func TestBoardsAreShort(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	var boards []Board
	for i := range 4 {
		b := Board{Name: fmt.Sprintf("Board %d", i)}
		for j := range 6 {
			b.Filters = append(b.Filters, Filter{fmt.Sprintf("What is new in team %d", j), fmt.Sprintf("/findings?category=Vulnerability&ns=team-%d&severity=critical&severity=high&status=new", j)})
		}
		boards = append(boards, b)
	}
	if err := k.WriteBoards(httptest.NewRecorder(), New("kim@example.com", "", now), boards); err != nil {
		t.Error(err)
	}
}

func TestSessionsEnd(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	s, other := New("kim", "a", now), New("kim", "a", now)
	w, others := httptest.NewRecorder(), httptest.NewRecorder()
	if err := errors.Join(k.Write(w, s), k.Write(others, other)); err != nil {
		t.Fatal(err)
	}
	stolen := carried(w)
	end := httptest.NewRecorder()
	k.End(end, s)
	for _, c := range end.Result().Cookies() {
		if c.MaxAge >= 0 || c.Value != "" {
			t.Errorf("the browser keeps %s", c.Name)
		}
	}
	if _, ok := k.Read(stolen); ok {
		t.Error("a cookie that was kept opens an ended session")
	}
	if _, ok := k.Read(carried(others)); !ok {
		t.Error("the end of one session ends another")
	}
	now = noon.Add(Lifetime)
	k.End(httptest.NewRecorder(), New("kim", "b", now))
	if len(k.ended.ends) != 1 {
		t.Errorf("%d ended sessions are remembered, want 1", len(k.ended.ends))
	}
}

func TestSessionsEndWithTheirTokens(t *testing.T) {
	s := New("kim", "a", noon)
	s.EndBy(time.Time{})
	s.EndBy(noon.Add(Lifetime * 2))
	if !s.Ends.Equal(noon.Add(Lifetime)) {
		t.Errorf("it ends at %s", s.Ends)
	}
	if s.EndBy(noon.Add(time.Hour)); !s.Ends.Equal(noon.Add(time.Hour)) {
		t.Errorf("it ends at %s", s.Ends)
	}
}

func TestAttempts(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	a := NewAttempt("/scans", now)
	w := httptest.NewRecorder()
	if err := k.WriteAttempt(w, a); err != nil {
		t.Fatal(err)
	}
	r := carried(w)
	if _, ok := k.Read(r); ok {
		t.Error("an attempt is a session")
	}
	taken := httptest.NewRecorder()
	got, ok := k.TakeAttempt(taken, r)
	if !ok || *got != *a || !got.Is(a.State) || got.Is("") || got.Is(a.State+"x") {
		t.Errorf("got %+v, %v", got, ok)
	}
	if c := taken.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Error("the browser keeps an attempt that was taken")
	}
	as := httptest.NewRecorder()
	if err := k.Write(as, New("kim", "a", now)); err != nil {
		t.Fatal(err)
	}
	forged := httptest.NewRequest(http.MethodGet, "/", nil)
	forged.AddCookie(&http.Cookie{Name: k.attempt(), Value: as.Result().Cookies()[0].Value[2:]})
	if _, ok := k.TakeAttempt(httptest.NewRecorder(), forged); ok {
		t.Error("a session is an attempt")
	}
	now = noon.Add(attemptLifetime)
	if _, ok := k.TakeAttempt(httptest.NewRecorder(), r); ok {
		t.Error("an attempt lasts for ever")
	}
	if (&Attempt{}).Is("") {
		t.Error("no state is one")
	}
}

func TestKeysHaveTheirSize(t *testing.T) {
	for name, keys := range map[string][][]byte{"None": nil, "Short": {[]byte("short")}} {
		if _, err := NewKeeper("console", keys, true, time.Now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCodeIsSingleUse(t *testing.T) {
	now := noon
	c := NewCode(func() time.Time { return now })
	text := c.Text()
	if c.Redeem("") || c.Redeem(text+"x") {
		t.Error("another text is the code")
	}
	if !c.Redeem(text) {
		t.Error("the code is refused")
	}
	if c.Redeem(text) || c.Redeem("") {
		t.Error("the code opens twice")
	}
	late := NewCode(func() time.Time { return now })
	text, now = late.Text(), noon.Add(codeLifetime)
	if late.Redeem(text) {
		t.Error("the code opens after its time")
	}
}

func TestGuard(t *testing.T) {
	for name, tc := range map[string]struct {
		method, host, origin, site string
		want                       int
	}{
		"Own":             {http.MethodGet, "127.0.0.1:8123", "", "", 200},
		"OwnChange":       {http.MethodPost, "127.0.0.1:8123", "http://127.0.0.1:8123", "same-origin", 200},
		"OldBrowser":      {http.MethodPost, "127.0.0.1:8123", "", "", 200},
		"Rebound":         {http.MethodGet, "evil.example:8123", "", "", 421},
		"OtherPort":       {http.MethodGet, "127.0.0.1:80", "", "", 421},
		"ForeignOrigin":   {http.MethodPost, "127.0.0.1:8123", "https://evil.example", "", 403},
		"NullOrigin":      {http.MethodPost, "127.0.0.1:8123", "null", "", 403},
		"WithoutReferrer": {http.MethodPost, "127.0.0.1:8123", "null", "same-origin", 200},
		"ForeignSite":     {http.MethodPost, "127.0.0.1:8123", "", "cross-site", 403},
		"NeighbourOfPort": {http.MethodPost, "127.0.0.1:8123", "http://127.0.0.1:9000", "same-site", 403},
		"ForeignLink":     {http.MethodGet, "127.0.0.1:8123", "", "cross-site", 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "/", nil)
			r.Host = tc.host
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			if tc.site != "" {
				r.Header.Set("Sec-Fetch-Site", tc.site)
			}
			w := httptest.NewRecorder()
			(&Guard{Hosts: []string{"127.0.0.1:8123"}}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("got %d, want %d", w.Code, tc.want)
			}
		})
	}
}
