// SPDX-License-Identifier: Apache-2.0

package pullsecret_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanyard/scanyard/discovery/internal/fixturetest"
	"github.com/scanyard/scanyard/discovery/internal/pullsecret"
)

type fixture struct {
	Name       string            `json:"name"`
	ImageID    string            `json:"imageID"`
	Env        map[string]string `json:"env"`
	SecretName string            `json:"secretName"`
	Files      map[string]string `json:"files"`
	Expected   struct {
		Domain string         `json:"domain"`
		Error  string         `json:"error"`
		Secret *corev1.Secret `json:"secret"`
	} `json:"expected"`
}

// TestFixturePullSecretExtractor runs the shared cases. Where secureCodeBox finds nothing
// under exactly the name of the host, the kubelet may find something: under Docker Hub's
// other names, with a scheme or a path. There credentials are expected.
func TestFixturePullSecretExtractor(t *testing.T) {
	for name, c := range fixturetest.Cases[fixture](t, "pull-secret-extractor") {
		t.Run(name+" "+c.Name, func(t *testing.T) { testFixture(t, c) })
	}
}

func testFixture(t *testing.T, c fixture) {
	img, err := pullsecret.ParseImage(c.ImageID)
	if c.Expected.Domain != "" && img.Host != c.Expected.Domain {
		t.Errorf("the host is %q, want %q (%v)", img.Host, c.Expected.Domain, err)
	}
	got, err := extract(t, img, c)
	if c.Expected.Error != "" {
		if want, ok := betterThanUpstream(t, c); ok {
			if err != nil {
				t.Fatalf("credentials under another name of the host are not found: %v", err)
			}
			if diff := cmp.Diff(want, got.StringData); diff != "" {
				t.Error(diff)
			}
			return
		}
		if err == nil {
			t.Fatalf("there is no error, want %q", c.Expected.Error)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Expected.Secret.ObjectMeta, got.ObjectMeta); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(c.Expected.Secret.StringData, got.StringData); diff != "" || got.Type != c.Expected.Secret.Type {
		t.Errorf("%s of type %s", diff, got.Type)
	}
}

func extract(t *testing.T, img pullsecret.Image, c fixture) (*corev1.Secret, error) {
	t.Helper()
	pod := pullsecret.Pod{Name: c.Env["POD_NAME"], Namespace: c.Env["NAMESPACE"], UID: types.UID(c.Env["POD_UID"])}
	if err := pod.Validate(); err != nil {
		return nil, err
	}
	secrets := fstest.MapFS{}
	for name, content := range c.Files {
		secrets[name] = &fstest.MapFile{Data: []byte(content)}
	}
	files, err := pullsecret.ReadFiles(secrets)
	if err != nil {
		return nil, err
	}
	found, err := pullsecret.Find(img, files, func(err error) { t.Log(err) })
	if err != nil {
		return nil, err
	}
	return pullsecret.NewSecret(c.SecretName, pod, found)
}

// betterThanUpstream returns the credentials of a case in which no key is the host itself
// and exactly one is, once what Docker and kubectl write around it is taken off.
func betterThanUpstream(t *testing.T, c fixture) (map[string]string, bool) {
	t.Helper()
	var found []map[string]string
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		var content struct {
			Auths map[string]struct{ Auth, Username, Password string } `json:"auths"`
		}
		if filepath.Base(name) != ".dockerconfigjson" || json.Unmarshal([]byte(c.Files[name]), &content) != nil {
			continue
		}
		for key, entry := range content.Auths {
			host, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://"), "/")
			if host == "index.docker.io" {
				host = "docker.io"
			}
			path = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(path, "v1/"), "v2/"), "/")
			if key == c.Expected.Domain || host != c.Expected.Domain || !strings.Contains(c.ImageID, path) {
				continue
			}
			if raw, err := base64.StdEncoding.DecodeString(entry.Auth); err == nil && entry.Auth != "" {
				entry.Username, entry.Password, _ = strings.Cut(string(raw), ":")
			}
			if entry.Username != "" && entry.Password != "" {
				found = append(found, map[string]string{"username": entry.Username, "password": entry.Password})
			}
		}
	}
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}
