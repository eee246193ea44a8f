// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/buildinfo"
)

func TestChoose(t *testing.T) {
	const url = "https://store/raw?sig=s3cr3t"
	cases := map[string]struct {
		args []string
		hook string
		want string
		left int
		err  string
	}{
		"ByName":           {args: []string{"hook", "update-field", url, url}, want: "update-field", left: 2},
		"ByLink":           {args: []string{"/hook-generic-webhook", url, url}, want: "generic-webhook", left: 2},
		"LinkBeatsEnv":     {args: []string{"/bin/hook-update-field", url, url}, hook: "generic-webhook", want: "update-field", left: 2},
		"ByEnv":            {args: []string{"/hook", url, url}, hook: "generic-webhook", want: "generic-webhook", left: 2},
		"NameBeatsEnv":     {args: []string{"/hook", "update-field", url}, hook: "generic-webhook", want: "update-field", left: 1},
		"NothingSaid":      {args: []string{"hook"}, err: "which hook?"},
		"EnvMissing":       {args: []string{"hook", url, url}, err: "environment variable HOOK is not set"},
		"EnvUnknown":       {args: []string{"hook", url, url}, hook: "nope", err: `there is no hook "nope"; there are ` + names()},
		"LinkUnknown":      {args: []string{"hook-nope", url}, err: `there is no hook "nope"`},
		"CommandUnknown":   {args: []string{"hook", "nope"}, err: `there is no hook or command "nope"`},
		"EnvIsNotForWords": {args: []string{"hook", "nope"}, hook: "update-field", err: `there is no hook or command "nope"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			hook, left, err := choose(c.args, func(string) (string, bool) { return c.hook, c.hook != "" })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "s3cr3t") {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || hook.Name != c.want || len(left) != c.left {
				t.Errorf("hook %q with %d arguments, %v, want %q with %d", hook.Name, len(left), err, c.want, c.left)
			}
		})
	}
}

// TestHooksAreComplete holds every hook on the list to what people and charts need of it.
func TestHooksAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range hooks {
		if h.Name == "" || h.Summary == "" || h.New == nil || seen[h.Name] {
			t.Errorf("hook %q has no name, no summary, no New, or a twin", h.Name)
		}
		seen[h.Name] = true
	}
}

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"List":     {[]string{"hook", "list"}, 0, hooks[0].Name + "   "},
		"Help":     {[]string{"hook", "--help"}, 0, "hook NAME RAW-URL FINDINGS-URL"},
		"HookHelp": {[]string{"hook", "update-field", "--help"}, 0, "ATTRIBUTE_VALUE"},
		"LinkHelp": {[]string{"/hook-generic-webhook", "-h"}, 0, "WEBHOOK_URL"},
		"Version":  {[]string{"hook", "version"}, 0, buildinfo.Version()},
		"Unknown":  {[]string{"hook", "sing"}, 2, `"sing"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := start(t.Context(), c.args, func(string) (string, bool) { return "", false }, &out, &out)
			if code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit code %d, output %q, want %d and %q", code, out.String(), c.code, c.want)
			}
		})
	}
}
