// SPDX-License-Identifier: Apache-2.0

package distribution_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

// tokens is a token service that lets users in, and the registry that believes it.
type tokens struct {
	*httptest.Server

	asked    atomic.Int64
	users    map[string]string
	life     int
	query    url.Values
	accepted atomic.Value
	broken   atomic.Bool
}

// guard makes a registry want tokens of a realm.
func guard(t *testing.T, r *registrytest.Registry, users map[string]string, realmHost string) *tokens {
	t.Helper()
	s := &tokens{users: users, life: 600}
	s.accepted.Store("")
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		n := s.asked.Add(1)
		if s.broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		user, password, _ := request.BasicAuth()
		if request.Method == http.MethodPost {
			user, password = "refresh", request.PostFormValue("refresh_token")
			s.query = request.PostForm
		} else {
			s.query = request.URL.Query()
		}
		if want, found := s.users[user]; !found || want != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		token := fmt.Sprintf("token-%d", n)
		s.accepted.Store("Bearer " + token)
		json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": s.life})
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		if accepted := s.accepted.Load(); accepted != "" && request.Header.Get("Authorization") == accepted {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s:%s/token",service="registry",scope="repository:other:push"`, realmHost, u.Port()))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	return s
}

func TestTokens(t *testing.T) {
	r := registrytest.NewTLS(t)
	r.Push("shop/api", "v1", registrytest.Image{Platform: "linux/amd64"})
	s := guard(t, r, map[string]string{"second": "secret"}, "auth.example.com")
	f := connect(t, r, secret(t, "registry.example.com", "registry.example.com/shop=first:wrong", "registry.example.com=second:secret"))
	tag := func() {
		t.Helper()
		if _, found, err := f.Tag(t.Context(), "shop/api", "v1", distribution.Pointer{}); err != nil || !found {
			t.Fatal(found, err)
		}
	}
	tag()
	if got := s.asked.Load(); got != 2 {
		t.Errorf("the realm is asked %d times, want once for each credential", got)
	}
	if got := s.query.Get("scope"); got != "repository:shop/api:pull" {
		t.Errorf("scope %s: the challenge's must not count", got)
	}
	if got := s.query.Get("service"); got != "registry" {
		t.Errorf("service %q", got)
	}
	// 600 s of life: fetched again 300 s before the end, without a 401.
	f.clock.Set(start.Add(299 * time.Second))
	r.Forget()
	tag()
	if got := s.asked.Load(); got != 2 {
		t.Errorf("the realm is asked %d times before the token is old", got)
	}
	f.clock.Set(start.Add(300 * time.Second))
	tag()
	if got, heads := s.asked.Load(), r.Count("HEAD manifests"); got != 3 || heads != 2 {
		t.Errorf("the realm is asked %d times, the registry %d times: want 3 and 2", got, heads)
	}
	// A token that the registry does not take any more is fetched again.
	s.accepted.Store("Bearer another")
	tag()
	if got := s.asked.Load(); got != 4 {
		t.Errorf("the realm is asked %d times after a token was revoked", got)
	}
	// The password is changed: one refusal, and nobody asks again.
	s.users = nil
	s.accepted.Store("Bearer another")
	r.Forget()
	for range 3 {
		_, _, err := f.Tag(t.Context(), "shop/api", "v1", distribution.Pointer{})
		if distribution.ReasonOf(err) != distribution.Unauthorized {
			t.Error(err)
		}
	}
	if got := r.Count("HEAD manifests"); got != 1 {
		t.Errorf("%d requests after the refusal, want 1", got)
	}
}

func TestShortTokens(t *testing.T) {
	r := registrytest.NewTLS(t)
	r.Push("a", "v1", registrytest.Image{Platform: "linux/amd64"})
	s := guard(t, r, map[string]string{"": ""}, "registry.example.com")
	s.life = 60
	f := connect(t, r)
	for _, age := range []time.Duration{0, 29 * time.Second, 30 * time.Second} {
		f.clock.Set(start.Add(age))
		if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.asked.Load(); got != 2 {
		t.Errorf("the realm is asked %d times, want at the start and at half of the life", got)
	}
	// A realm that is broken does no harm before the token ends.
	s.broken.Store(true)
	f.clock.Set(start.Add(89 * time.Second))
	if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
		t.Error(err)
	}
	f.clock.Set(start.Add(90 * time.Second))
	if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); said(err) != "Unreachable: status 502: the token service does not answer" {
		t.Error(err)
	}
}

func TestIdentityToken(t *testing.T) {
	r := registrytest.NewTLS(t)
	r.Push("a", "v1", registrytest.Image{Platform: "linux/amd64"})
	s := guard(t, r, map[string]string{"refresh": "identity"}, "registry.example.com")
	f := connect(t, r, dockerConfig(t, "registry.example.com", `"registry.example.com":{"identitytoken":"identity"}`))
	if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
		t.Fatal(err)
	}
	if got := s.query.Get("grant_type"); got != "refresh_token" {
		t.Error(got)
	}
	s.accepted.Store("Bearer ready")
	f = connect(t, r, dockerConfig(t, "registry.example.com", `"registry.example.com":{"registrytoken":"ready"}`))
	if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
		t.Fatal(err)
	}
	if got := s.asked.Load(); got != 1 {
		t.Errorf("the realm is asked %d times", got)
	}
}

func TestBasic(t *testing.T) {
	r := registrytest.New(t)
	r.Push("a", "v1", registrytest.Image{Platform: "linux/amd64"})
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		if user, password, _ := request.BasicAuth(); user == "u" && password == "p" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	f := connect(t, r, secret(t, "registry.example.com", "registry.example.com=u:p"))
	for range 2 {
		if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Count("HEAD manifests"); got != 3 {
		t.Errorf("%d requests, want one challenge and two answers", got)
	}
	_, _, err := connect(t, r).Tag(t.Context(), "a", "v1", distribution.Pointer{})
	if got := said(err); got != "Unauthorized: status 401" {
		t.Error(got)
	}
}

// TestForeignRealm has a registry that wants the password brought to a host of another domain.
func TestForeignRealm(t *testing.T) {
	r := registrytest.NewTLS(t)
	r.Push("a", "v1", registrytest.Image{Platform: "linux/amd64"})
	s := guard(t, r, map[string]string{"u": "p", "": ""}, "auth.example.org")
	f := connect(t, r, secret(t, "registry.example.com", "registry.example.com=u:p"))
	for range 2 {
		_, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
		if got := said(err); got != "Unauthorized: status 401: ForeignRealm" {
			t.Error(got)
		}
	}
	if got, heads := s.asked.Load(), r.Count("HEAD manifests"); got != 0 || heads != 1 {
		t.Errorf("the foreign realm is asked %d times, the registry %d times: want 0 and 1", got, heads)
	}
	// With a Basic challenge, the password goes to the registry itself; a realm without https gets nothing.
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://registry.example.com/token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	_, _, err := connect(t, r, secret(t, "registry.example.com", "registry.example.com=u:p")).Tag(t.Context(), "a", "v1", distribution.Pointer{})
	if got := said(err); got != "Unauthorized: status 401: the realm is not an https address" {
		t.Error(got)
	}
}

// TestEgressRealm has realms where nobody may go.
func TestEgressRealm(t *testing.T) {
	for realm, want := range map[string]string{
		"https://inner.example.com/token": "HostNotAllowed: registry.example.com leads to an address that is not allowed",
		"https://169.254.169.254/latest":  "HostNotAllowed: registry.example.com leads to an address that is not allowed",
		"https://auth.example.com:25/":    "HostNotAllowed: auth.example.com: port 25 is not allowed: ports are 80, 443, 1024 and above",
		"https://auth.example.net/":       "HostNotAllowed: auth.example.net is not in allowedHosts",
		"file:///etc/passwd":              "Unauthorized: status 401: the realm is not an https address",
		"":                                "Unauthorized: status 401: the realm is not an https address",
	} {
		r := registrytest.NewTLS(t)
		r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", realm))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		f := connect(t, r, func(o *distribution.Options) {
			rules := dialer().Rules()
			rules.AllowedHosts = [][]string{{"*.example.com", "169.254.*"}}
			o.Dialer = egress.NewDialer(rules, egress.WithResolve(loopback))
		})
		_, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
		if got := said(err); got != want {
			t.Errorf("%s: %s, want %s", realm, got, want)
		}
	}
}
