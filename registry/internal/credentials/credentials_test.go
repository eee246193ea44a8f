// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/credentials"
)

const dockerConfig = "kubernetes.io/dockerconfigjson"

func auth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func config(text string) map[string][]byte {
	return map[string][]byte{".dockerconfigjson": []byte(text)}
}

// users gives who is tried, in order.
func users(t *testing.T, text, host, repository string) string {
	t.Helper()
	set, err := credentials.Read(dockerConfig, config(text), host)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, c := range set.Match(repository) {
		list = append(list, c.Username+c.IdentityToken+c.RegistryToken)
	}
	return strings.Join(list, " ")
}

func TestMatch(t *testing.T) {
	entry := func(key, user string) string { return fmt.Sprintf(`%q:{"auth":%q}`, key, auth(user, "secret")) }
	all := `{"auths":{` + strings.Join([]string{
		entry("registry.example.com", "plain"), entry("https://registry.example.com/v2/", "scheme"), entry("registry.example.com/shop", "shop"),
		entry("http://registry.example.com:5000/shop/api/", "api"), entry("registry.example.com:5000", "port"), entry("other.example.com", "other"),
		entry("https://index.docker.io/v1/", "hub"), `"ghcr.io":{"identitytoken":"identity"}`, `"quay.io":{"registrytoken":"token"}`,
		`"reg.example.com":{"username":"u","password":"p"}`, entry("[::1]:5000", "six"),
	}, ",") + `}}`
	for _, c := range []struct{ host, repository, want string }{
		{"registry.example.com", "base/debian", "scheme plain"},
		{"Registry.Example.com.", "shop/api", "shop scheme plain"},
		{"registry.example.com", "shop", "shop scheme plain"},
		{"registry.example.com", "shopping", "scheme plain"},
		{"registry.example.com", "", "scheme plain"},
		{"registry.example.com:5000", "shop/api/v1", "api shop port scheme plain"},
		{"registry.example.com:5001", "shop/api", "shop scheme plain"},
		{"registry-1.docker.io", "library/nginx", "hub"},
		{"docker.io", "library/nginx", "hub"},
		{"ghcr.io", "a/b", "identity"},
		{"quay.io:443", "a/b", "token"},
		{"reg.example.com", "a", "u"},
		{"[::1]:5000", "a", "six"},
		{"example.com", "a", ""},
	} {
		if got := users(t, all, c.host, c.repository); got != c.want {
			t.Errorf("%s/%s: %q, want %q", c.host, c.repository, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Helpers":   {`{"auths":{},"credHelpers":{"gcr.io":"gcloud"}}`, credentials.ErrPrograms.Error()},
		"Store":     {`{"credsStore":"desktop"}`, credentials.ErrPrograms.Error()},
		"NoJSON":    {`{"auths":{"a.example.com":{"auth":"c2VjcmV0"`, `.dockerconfigjson is not JSON of the form {"auths": {…}}`},
		"NoColon":   {`{"auths":{"a.example.com":{"auth":"c2VjcmV0"}}}`, "auth is not base64 of username:password"},
		"NoBase64":  {`{"auths":{"a.example.com":{"auth":"se:cret"}}}`, "auth is not base64 of username:password"},
		"Empty":     {`{"auths":{"a.example.com":{}}}`, "an entry of auths needs auth, username and password, identitytoken or registrytoken"},
		"OtherHost": {`{"auths":{"b.example.com":{}}}`, ""},
		"Unpadded":  {`{"auths":{"a.example.com":{"auth":"YTpi"}}}`, "a"},
	} {
		if got := users(t, c.text, "a.example.com", "x"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	set, err := credentials.Read("Opaque", map[string][]byte{"username": []byte("u"), "password": []byte("p")}, "a.example.com")
	want := []credentials.Credential{{Username: "u", Password: "p"}}
	if err != nil || !slices.Equal(set.Match("x"), want) {
		t.Error(set, err)
	}
	if _, err := credentials.Read("Opaque", map[string][]byte{"username": []byte("u")}, "a.example.com"); err == nil {
		t.Error("an Opaque Secret without a password is taken")
	}
	if _, err := credentials.Read("kubernetes.io/tls", nil, "a.example.com"); err == nil {
		t.Error("a Secret of certificates is taken")
	}
	if _, err := credentials.Read(dockerConfig, nil, "a.example.com"); err == nil || errors.Is(err, credentials.ErrPrograms) {
		t.Error(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, credentials.Credential{Username: "u", Password: "hunter2", IdentityToken: "hunter2"}); strings.Contains(got, "hunter2") {
			t.Errorf("%s shows %s", format, got)
		}
		if got := fmt.Sprintf(format, set); strings.Contains(got, "{p") || strings.Contains(got, `"p"`) {
			t.Errorf("%s shows %s", format, got)
		}
	}
}

func TestRealm(t *testing.T) {
	for _, c := range []struct {
		registry, realm string
		want            bool
	}{
		{"registry.example.com", "registry.example.com", true},
		{"registry.example.com", "auth.example.com", true},
		{"registry.example.co.uk", "auth.example.co.uk", true},
		{"registry.example.co.uk", "evil.co.uk", false},
		{"registry.example.com", "example.org", false},
		{"registry.example.com", "registry.example.com.evil.org", false},
		{"a.github.io", "b.github.io", false},
		{"registry-1.docker.io", "auth.docker.io", true},
		{"mirror.example.com", "auth.docker.io", true},
		{"shop.azurecr.io", "shop.azurecr.io", true},
		{"registry.example.com", "azurecr.io.evil.org", false},
		{"registry.local", "auth.local", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"10.0.0.1", "0.0.1", false},
		{"registry.example.com", "", false},
	} {
		if got := credentials.Realm(c.registry, c.realm); got != c.want {
			t.Errorf("%s of %s: %v", c.realm, c.registry, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://a.example.com/v1/":{"auth":"YTpi"}}}`), "a.example.com", "x/y")
	f.Add([]byte(`{"auths":{"[::1]:5000/x":{"username":"u","password":"p"}}}`), "[::1]:5000", "x")
	f.Fuzz(func(t *testing.T, text []byte, host, repository string) {
		set, err := credentials.Read(dockerConfig, map[string][]byte{".dockerconfigjson": text}, host)
		if err != nil {
			return
		}
		for _, c := range set.Match(repository) {
			if c.RegistryToken == "" && c.IdentityToken == "" && (c.Username == "" || c.Password == "") {
				t.Error("a credential that says nothing")
			}
		}
	})
}
