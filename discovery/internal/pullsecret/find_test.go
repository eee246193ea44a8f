// SPDX-License-Identifier: Apache-2.0

package pullsecret_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/discovery/internal/pullsecret"
)

func TestParseImage(t *testing.T) {
	for name, c := range map[string]struct {
		reference string
		want      pullsecret.Image
		refused   bool
	}{
		"OneWord":       {reference: "ubuntu", want: pullsecret.Image{Host: "docker.io", Path: "library/ubuntu"}},
		"OneWordTag":    {reference: "ubuntu:22.04", want: pullsecret.Image{Host: "docker.io", Path: "library/ubuntu"}},
		"Hub":           {reference: "team/app@sha256:aa", want: pullsecret.Image{Host: "docker.io", Path: "team/app"}},
		"HubByName":     {reference: "registry-1.docker.io/ubuntu", want: pullsecret.Image{Host: "docker.io", Path: "library/ubuntu"}},
		"Port":          {reference: "r.example.com:5000/a/b:1@sha256:aa", want: pullsecret.Image{Host: "r.example.com:5000", Path: "a/b"}},
		"LocalhostPort": {reference: "localhost:5000/b:1", want: pullsecret.Image{Host: "localhost:5000", Path: "b"}},
		"UpperCase":     {reference: "REGISTRY/app", want: pullsecret.Image{Host: "REGISTRY", Path: "app"}},
		"Empty":         {refused: true},
		"Scheme":        {reference: "docker-pullable://ubuntu@sha256:aa", refused: true},
		"Space":         {reference: "a b", refused: true},
		"Long":          {reference: strings.Repeat("a", 3000), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pullsecret.ParseImage(c.reference)
			if (err != nil) != c.refused {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func auth(user string) string {
	return `{"auth":"` + base64.StdEncoding.EncodeToString([]byte(user+":p")) + `"}`
}

func TestFind(t *testing.T) {
	one := func(key, entry string) []string { return []string{fmt.Sprintf(`{"auths":{%q:%s}}`, key, entry)} }
	for name, c := range map[string]struct {
		image  string
		files  []string
		legacy bool
		want   string // the user
		passed string // the error of a skipped file
		words  string // of the error
	}{
		"KubectlDockerHub":       {image: "ubuntu", files: one("https://index.docker.io/v1/", auth("u")), want: "u"},
		"HubHostOnly":            {image: "team/app", files: one("index.docker.io", auth("u")), want: "u"},
		"HubPath":                {image: "team/app", files: one("docker.io/team", auth("u")), want: "u"},
		"HubOtherPath":           {image: "team/app", files: one("docker.io/other", auth("u")), words: "docker.io"},
		"Scheme":                 {image: "r.example.com/a", files: one("http://r.example.com", auth("u")), want: "u"},
		"SchemeAndVersion":       {image: "r.example.com/a", files: one("HTTPS://r.example.com/v2/", auth("u")), want: "u"},
		"VersionWithoutSlash":    {image: "r.example.com/a", files: one("r.example.com/v2", auth("u")), want: "u"},
		"UpperCase":              {image: "R.example.com/a", files: one("r.EXAMPLE.com", auth("u")), want: "u"},
		"Port":                   {image: "r.example.com:5000/a", files: one("r.example.com:5000", auth("u")), want: "u"},
		"OtherPort":              {image: "r.example.com:5000/a", files: one("r.example.com", auth("u")), words: "no credentials for the registry r.example.com:5000"},
		"Wildcard":               {image: "r.example.com/a", files: one("*.example.com", auth("u")), want: "u"},
		"WildcardIsOnePart":      {image: "a.r.example.com/a", files: one("*.example.com", auth("u")), words: "no credentials"},
		"LongestPath":            {image: "r.example.com/a/b", files: []string{`{"auths":{"r.example.com":` + auth("host") + `,"r.example.com/a/b":` + auth("b") + `,"r.example.com/a":` + auth("a") + `}}`}, want: "b"},
		"LongestPathOfAllFiles":  {image: "r.example.com/a/b", files: append(one("r.example.com", auth("first")), one("https://r.example.com/a/", auth("second"))...), want: "second"},
		"HostBeforeWildcard":     {image: "r.example.com/a", files: append(one("*.example.com", auth("wild")), one("r.example.com", auth("host"))...), want: "host"},
		"EmptyEntryPassedOver":   {image: "r.example.com/a", files: append(one("r.example.com", `{}`), one("r.example.com", auth("second"))...), want: "second"},
		"UserAndPassword":        {image: "r.example.com/a", files: one("r.example.com", `{"username":"u","password":"p"}`), want: "u"},
		"WithoutPadding":         {image: "r.example.com/a", files: one("r.example.com", `{"auth":"`+strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("u1:p")), "=")+`"}`), want: "u1"},
		"FilledUp":               {image: "r.example.com/a", files: one("r.example.com", `{"auth":"`+base64.StdEncoding.EncodeToString([]byte("u:p\x00\x00"))+`"}`), want: "u"},
		"Legacy":                 {image: "r.example.com/a", files: []string{`{"https://r.example.com":` + auth("u") + `}`}, legacy: true, want: "u"},
		"IdentityToken":          {image: "r.example.com/a", files: one("r.example.com", `{"identitytoken":"SECRET"}`), words: "is a token, which scanners do not take"},
		"CredentialHelper":       {image: "r.example.com/a", files: []string{`{"credHelpers":{"r.example.com":"ecr-login"}}`}, words: "credential helper"},
		"CredentialStore":        {image: "r.example.com/a", files: []string{`{"credsStore":"desktop","auths":{"r.example.com":{}}}`}, words: "credential helper"},
		"NoColon":                {image: "r.example.com/a", files: one("r.example.com", `{"auth":"U0VDUkVU"}`), words: "a colon between them"},
		"NoJSON":                 {image: "r.example.com/a", files: []string{`{"auths":SECRET`}, words: "is not JSON"},
		"NoJSONPassedOver":       {image: "r.example.com/a", files: append([]string{`{"auths":SECRET`}, one("r.example.com", auth("second"))...), want: "second", passed: "0: is not JSON (at byte 10)"},
		"EmptyPassedOver":        {image: "r.example.com/a", files: append([]string{""}, one("r.example.com", auth("second"))...), want: "second", passed: "0: is not JSON (at byte 0)"},
		"NoJSONBehind":           {image: "r.example.com/a", files: append(one("r.example.com", auth("first")), "SECRET"), want: "first", passed: "1: is not JSON (at byte 1)"},
		"WrongTypePassedOver":    {image: "r.example.com/a", files: append([]string{`{"auths":["SECRET"]}`}, one("r.example.com", auth("second"))...), want: "second", passed: `0: the field "auths" has the wrong type`},
		"WrongType":              {image: "r.example.com/a", files: []string{`{"auths":{"r.example.com":{"auth":["SECRET"]}}}`}, words: "wrong type"},
		"NoFiles":                {image: "r.example.com/a", words: "in 0 pull secrets"},
		"MalformedKeysAreNoKeys": {image: "r.example.com/a", files: []string{`{"auths":{"":` + auth("a") + `,"[":` + auth("b") + `,"https://":` + auth("c") + `,"/":` + auth("d") + `,"ftp://r.example.com":` + auth("e") + `}}`}, words: "no credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			img, err := pullsecret.ParseImage(c.image)
			if err != nil {
				t.Fatal(err)
			}
			var (
				files  []pullsecret.File
				passed []string
			)
			for i, content := range c.files {
				files = append(files, pullsecret.File{Name: strconv.Itoa(i), Content: []byte(content), Legacy: c.legacy})
			}
			got, err := pullsecret.Find(img, files, func(err error) { passed = append(passed, err.Error()) })
			if c.words != "" {
				if err == nil || !strings.Contains(err.Error(), c.words) {
					t.Fatalf("error %v, want one about %q", err, c.words)
				}
				if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "U0VDUkVU") {
					t.Errorf("the error has a secret: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Username != c.want || got.Password != "p" {
				t.Errorf("user %q, want %q", got.Username, c.want)
			}
			if strings.Join(passed, "; ") != c.passed {
				t.Errorf("passed over: %q, want %q", passed, c.passed)
			}
		})
	}
}

func TestCredentialsStayOutOfLogs(t *testing.T) {
	c := pullsecret.Credentials{Username: "user", Password: "hunter2"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, c); strings.Contains(out, "hunter2") {
			t.Errorf("%s prints %s", format, out)
		}
	}
}

// TestReadFilesOfAVolume looks at a folder as the kubelet makes it.
func TestReadFilesOfAVolume(t *testing.T) {
	root := t.TempDir()
	volume := filepath.Join(root, "regcred", "..2026_01_02")
	if err := os.MkdirAll(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, ".dockerconfigjson"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"..data": "..2026_01_02", ".dockerconfigjson": "..data/.dockerconfigjson"} {
		if err := os.Symlink(to, filepath.Join(root, "regcred", link)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := pullsecret.ReadFiles(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]pullsecret.File{{Name: "regcred/.dockerconfigjson", Content: []byte("{}")}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadFilesRefuses(t *testing.T) {
	many := fstest.MapFS{}
	for i := range 300 {
		many[fmt.Sprintf("%d/.dockerconfigjson", i)] = &fstest.MapFile{Data: []byte("{}")}
	}
	for name, secrets := range map[string]fstest.MapFS{
		"Large":   {"a/.dockerconfigjson": {Data: make([]byte, 2<<20)}},
		"TooMany": many,
		"Device":  {"a/.dockerconfigjson": {Mode: fs.ModeDevice}},
	} {
		t.Run(name, func(t *testing.T) {
			if files, err := pullsecret.ReadFiles(secrets); err == nil {
				t.Errorf("%d files are accepted", len(files))
			}
		})
	}
	if _, err := pullsecret.ReadFiles(os.DirFS(filepath.Join(t.TempDir(), "none"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("r.example.com/a/b", `{"auths":{"r.example.com":{"auth":"dTpw"}}}`, false)
	f.Add("ubuntu", `{"https://index.docker.io/v1/":{"username":"u","password":"p"}}`, true)
	f.Fuzz(func(t *testing.T, reference, content string, legacy bool) {
		img, err := pullsecret.ParseImage(reference)
		if err != nil {
			return
		}
		got, err := pullsecret.Find(img, []pullsecret.File{{Name: "f", Content: []byte(content), Legacy: legacy}}, func(error) {})
		if err == nil && (got.Username == "" || got.Password == "") {
			t.Error("credentials are empty")
		}
	})
}
