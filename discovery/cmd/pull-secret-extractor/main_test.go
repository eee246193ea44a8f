// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const unreachable = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

func TestExitCodes(t *testing.T) {
	pod := map[string]string{"POD_NAME": "p", "NAMESPACE": "ns", "POD_UID": "u"}
	for name, c := range map[string]struct {
		args   []string
		secret string
		env    map[string]string
		want   int
		words  string
	}{
		"Help":         {args: []string{"-h"}, want: 0, words: "Exit codes"},
		"UnknownFlag":  {args: []string{"-x"}, want: exitUsage, words: "-imageID"},
		"NoImage":      {env: pod, want: exitUsage, words: "reference of the image is empty"},
		"NoVariables":  {args: []string{"-imageID", "r.example.com/a", "-secret", "s"}, want: exitUsage, words: "POD_UID"},
		"BadName":      {args: []string{"-imageID", "r.example.com/a", "-secret", "S"}, env: pod, want: exitUsage, words: "name of a Secret"},
		"NoneFits":     {args: []string{"-imageID", "other.example.com/a", "-secret", "s"}, env: pod, want: exitNone, words: "other.example.com"},
		"BadSecret":    {args: []string{"-imageID", "r.example.com/a", "-secret", "s"}, env: pod, secret: `{"auths":{"r.example.com":{"auth":"?"}}}`, want: exitSecret, words: "regcred/.dockerconfigjson"},
		"NoJSON":       {args: []string{"-imageID", "r.example.com/a", "-secret", "s"}, env: pod, secret: "{", want: exitNone, words: "a pull secret is passed over: regcred/.dockerconfigjson: is not JSON"},
		"NoAPIServer":  {args: []string{"-imageID", "r.example.com/a", "-secret", "s"}, env: pod, want: exitAPI, words: "create Secret ns/s"},
		"NoKubeconfig": {args: []string{"-imageID", "r.example.com/a", "-secret", "s", "-kubeconfig", "none"}, env: pod, want: exitUsage, words: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.secret == "" {
				c.secret = `{"auths":{"r.example.com":{"auth":"dTpodW50ZXIy"}}}`
			}
			write(t, filepath.Join(dir, "secrets", "regcred", ".dockerconfigjson"), c.secret)
			write(t, filepath.Join(dir, "kubeconfig"), unreachable)
			args := append([]string{"-secrets-folder", filepath.Join(dir, "secrets"), "-kubeconfig", filepath.Join(dir, "kubeconfig")}, c.args...)
			var out bytes.Buffer
			if got := run(t.Context(), args, func(name string) string { return c.env[name] }, &out); got != c.want {
				t.Errorf("exit code %d, want %d: %s", got, c.want, &out)
			}
			if !strings.Contains(out.String(), c.words) {
				t.Errorf("no word of %q in %s", c.words, &out)
			}
			if strings.Contains(out.String(), "hunter2") {
				t.Errorf("the password is in: %s", &out)
			}
		})
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
