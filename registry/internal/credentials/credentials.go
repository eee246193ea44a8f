// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// The keys of a Secret.
const (
	dockerConfigType = "kubernetes.io/dockerconfigjson"
	dockerConfigKey  = ".dockerconfigjson"
	opaqueType       = "Opaque"
	usernameKey      = "username"
	passwordKey      = "password"
)

// ErrPrograms is a Secret that wants programs to be run.
var ErrPrograms = errors.New("credHelpers and credsStore are not allowed: write the credentials themselves into auths")

// Credential is one way to say who asks. One of username with password, identity token and registry token is set.
type Credential struct {
	Username, Password string
	// IdentityToken is exchanged for a token at the realm.
	IdentityToken string
	// RegistryToken is sent as it is.
	RegistryToken string
}

// String tells nothing that is secret.
func (c Credential) String() string { return "credential [redacted]" }

// GoString tells nothing that is secret, either.
func (c Credential) GoString() string { return c.String() }

// Set are the credentials of a Secret for one host.
type Set struct{ entries []entry }

// String tells nothing that is secret: printing does not ask the entries themselves.
func (s Set) String() string { return fmt.Sprintf("%d credentials", len(s.entries)) }

// GoString tells nothing that is secret, either.
func (s Set) GoString() string { return s.String() }

type entry struct {
	key     string
	path    string
	hasPort bool
	Credential
}

// Of is one credential, for all repositories of its host.
func Of(c Credential) Set { return Set{entries: []entry{{Credential: c}}} }

// Read takes the credentials for a host, with its port if the url has one. The error says what is wrong with the Secret, without its
// content.
func Read(secretType string, data map[string][]byte, host string) (Set, error) {
	switch secretType {
	case dockerConfigType:
		return readDockerConfig(data[dockerConfigKey], host)
	case opaqueType, "":
		username, password := string(data[usernameKey]), string(data[passwordKey])
		if username == "" || password == "" {
			return Set{}, fmt.Errorf("an Opaque Secret needs %s and %s", usernameKey, passwordKey)
		}
		return Of(Credential{Username: username, Password: password}), nil
	}
	return Set{}, fmt.Errorf("the type must be %s or %s", dockerConfigType, opaqueType)
}

type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredHelpers map[string]any        `json:"credHelpers"`
	CredsStore  string                `json:"credsStore"`
}

type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func readDockerConfig(text []byte, host string) (Set, error) {
	var config dockerConfig
	if err := json.Unmarshal(text, &config); err != nil {
		// The error of the reader may hold a part of the text.
		return Set{}, fmt.Errorf("%s is not JSON of the form {\"auths\": {…}}", dockerConfigKey)
	}
	if len(config.CredHelpers) > 0 || config.CredsStore != "" {
		return Set{}, ErrPrograms
	}
	var set Set
	for key, auth := range config.Auths {
		path, hasPort, fits := matchKey(key, host)
		if !fits {
			continue
		}
		credential, err := auth.credential()
		if err != nil {
			return Set{}, err
		}
		set.entries = append(set.entries, entry{key: key, path: path, hasPort: hasPort, Credential: credential})
	}
	// The keys come in no order: equal ones are told apart by their text, so that each read gives the same.
	slices.SortFunc(set.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), -compareBools(a.hasPort, b.hasPort), cmp.Compare(a.key, b.key))
	})
	return set, nil
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (a dockerAuth) credential() (Credential, error) {
	c := Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth != "" {
		text, err := base64.StdEncoding.DecodeString(a.Auth)
		if err != nil {
			text, err = base64.RawStdEncoding.DecodeString(a.Auth)
		}
		username, password, found := strings.Cut(string(text), ":")
		if err != nil || !found {
			return Credential{}, errors.New("auth is not base64 of username:password")
		}
		// Some clients write a zero at the end.
		c.Username, c.Password = username, strings.TrimRight(password, "\x00")
	}
	if c.RegistryToken == "" && c.IdentityToken == "" && (c.Username == "" || c.Password == "") {
		return Credential{}, errors.New("an entry of auths needs auth, username and password, identitytoken or registrytoken")
	}
	return c, nil
}

// matchKey tells whether a key of auths is for a host, and the path that repositories must have.
func matchKey(key, host string) (path string, hasPort, fits bool) {
	for _, scheme := range []string{"https://", "http://"} {
		key = strings.TrimPrefix(key, scheme)
	}
	key, path, _ = strings.Cut(key, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	keyHost, keyPort := split(key)
	wantedHost, wantedPort := split(host)
	return path, keyPort != "", keyHost == wantedHost && (keyPort == "" || keyPort == wantedPort)
}

// split gives host and port; all names of Docker Hub are one, and the port of https is none.
func split(address string) (host, port string) {
	host = address
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if port == "443" {
		port = ""
	}
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		host = "docker.io"
	}
	return host, port
}

// Match gives the credentials for a repository, in the order in which they are tried; "" is the catalogue.
func (s Set) Match(repository string) []Credential {
	var list []Credential
	for _, e := range s.entries {
		if (e.path == "" || repository == e.path || strings.HasPrefix(repository, e.path+"/")) && !slices.Contains(list, e.Credential) {
			list = append(list, e.Credential)
		}
	}
	return list
}
