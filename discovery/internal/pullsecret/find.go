// SPDX-License-Identifier: Apache-2.0

package pullsecret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// ErrNoCredentials is returned where no pull secret has credentials for an image.
var ErrNoCredentials = errors.New("no credentials")

// Credentials are what a registry asks for.
type Credentials struct{ Username, Password string }

// String keeps credentials out of logs and errors.
func (Credentials) String() string { return "[credentials]" }

// GoString keeps them out of %#v too.
func (Credentials) GoString() string { return "[credentials]" }

// File is the content of a pull secret.
type File struct {
	// Name is its path, for messages; files are tried in the order given.
	Name string
	// Content is what Docker stores in config.json, or in .dockercfg, which is its auths alone.
	Content []byte
	// Legacy says that it is a .dockercfg.
	Legacy bool
}

type config struct {
	Auths       map[string]entry  `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

type entry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// candidate is an entry whose key matches the image.
type candidate struct {
	file  string
	order int
	key   key
	entry entry
}

// Find returns the credentials that the kubelet would try first for an image: those of the key with the
// longest path, and of two equal keys those of the first file. Entries without anything that a scanner
// could use are skipped; an entry that cannot be read is an error, since another user's credentials may
// see another image. A Secret that is not JSON is skipped, as by the kubelet, and passed to passedOver.
func Find(img Image, files []File, passedOver func(error)) (Credentials, error) {
	var all []candidate
	var hints []string
	for i, f := range files {
		c, err := f.parse()
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Name, err)
			passedOver(err)
			hints = append(hints, err.Error())
			continue
		}
		for _, text := range slices.Sorted(maps.Keys(c.Auths)) {
			if k := parseKey(text); k.matches(img) {
				all = append(all, candidate{file: f.Name, order: i, key: k, entry: c.Auths[text]})
			}
		}
		if c.hasHelper(img) {
			hints = append(hints, f.Name+" names a credential helper, a program that pods do not have; store user name and password in it")
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Or(a.key.compare(b.key), a.order-b.order) })
	for _, c := range all {
		found, why, err := c.entry.credentials()
		if err != nil {
			return Credentials{}, fmt.Errorf("%s: the entry of %s: %w", c.file, c.key.text, err)
		}
		if why == "" {
			return found, nil
		}
		hints = append(hints, fmt.Sprintf("the entry of %s in %s %s", c.key.text, c.file, why))
	}
	err := fmt.Errorf("%w for the registry %s in %d pull secrets", ErrNoCredentials, img.Host, len(files))
	if len(hints) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.Join(hints, "; "))
	}
	return Credentials{}, err
}

func (f File) parse() (config, error) {
	var c config
	into := any(&c)
	if f.Legacy {
		into = &c.Auths
	}
	if err := json.Unmarshal(f.Content, into); err != nil {
		// The text of the error may quote the content, which is secret.
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return config{}, fmt.Errorf("is not JSON (at byte %d)", syntax.Offset)
		}
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return config{}, fmt.Errorf("the field %q has the wrong type", wrong.Field)
		}
		return config{}, errors.New("is not JSON")
	}
	return c, nil
}

func (c config) hasHelper(img Image) bool {
	if c.CredsStore != "" {
		return true
	}
	for text := range c.CredHelpers {
		if parseKey(text).matches(img) {
			return true
		}
	}
	return false
}

// credentials returns user name and password, or why there are none that a scanner could use.
func (e entry) credentials() (found Credentials, why string, err error) {
	switch {
	case e.Auth != "":
		found, err = decodeAuth(e.Auth)
		return found, "", err
	case e.Username != "" && e.Password != "":
		return Credentials{Username: e.Username, Password: e.Password}, "", nil
	case e.IdentityToken != "" || e.RegistryToken != "":
		return Credentials{}, "is a token, which scanners do not take; make an access token or robot account and store it as user name and password", nil
	default:
		return Credentials{}, "has no user name and password", nil
	}
}

// decodeAuth reads base64 of user:password, as "docker login" writes it.
func decodeAuth(text string) (Credentials, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if raw, err = base64.RawStdEncoding.DecodeString(text); err != nil {
			return Credentials{}, errors.New("auth is not base64")
		}
	}
	user, password, found := strings.Cut(string(raw), ":")
	password = strings.Trim(password, "\x00") // old Docker clients fill up with them
	if !found || user == "" || password == "" {
		return Credentials{}, errors.New("auth is not a user name and a password with a colon between them")
	}
	return Credentials{Username: user, Password: password}, nil
}

// key is a key of auths.
type key struct {
	// text is the key as written.
	text, host, path string
}

// parseKey takes off what Docker and kubectl write around a host: the scheme, and the version of the API.
func parseKey(text string) key {
	rest := text
	if scheme, after, found := strings.Cut(text, "://"); found && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")) {
		rest = after
	}
	host, p, _ := strings.Cut(rest, "/")
	for _, version := range []string{"v1", "v2"} {
		if p == version || strings.HasPrefix(p, version+"/") {
			p = strings.TrimPrefix(strings.TrimPrefix(p, version), "/")
			break
		}
	}
	host = strings.ToLower(host)
	if hubNames[host] {
		host = dockerHub
	}
	return key{text: text, host: host, path: strings.TrimSuffix(p, "/")}
}

// matches says whether the kubelet would use the key for an image: the port has to be
// the same, each part of the host may have wildcards, the path is a prefix.
func (k key) matches(img Image) bool {
	wantHost, wantPort, _ := strings.Cut(k.host, ":")
	host, port, _ := strings.Cut(strings.ToLower(img.Host), ":")
	if wantHost == "" || wantPort != port || !strings.HasPrefix(img.Path, k.path) {
		return false
	}
	want, have := strings.Split(wantHost, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// compare puts the key that says more first: the longer path, the host without
// wildcards, the host alone before the one with scheme and version.
func (k key) compare(o key) int {
	return cmp.Or(
		len(o.path)-len(k.path),
		strings.Count(k.host, "*")-strings.Count(o.host, "*"),
		len(o.host)-len(k.host),
	)
}
