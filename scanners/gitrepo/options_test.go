// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	tests := map[string]struct {
		in   string
		want time.Duration
		bad  bool
	}{
		"Minutes":   {in: "90m", want: 90 * time.Minute},
		"Mixed":     {in: "2h45m", want: 2*time.Hour + 45*time.Minute},
		"Days":      {in: "7d", want: 168 * time.Hour},
		"Weeks":     {in: "+2w", want: 336 * time.Hour},
		"Fraction":  {in: "1.5h", want: 90 * time.Minute},
		"Negative":  {in: "-1d", want: -24 * time.Hour},
		"Seconds":   {in: "10s", bad: true},
		"NoUnit":    {in: "10", bad: true},
		"Empty":     {in: "", bad: true},
		"TwoSigns":  {in: "--1d", bad: true},
		"Space":     {in: "1d 2h", bad: true},
		"Centuries": {in: "99999w", bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseDuration(tc.in)
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	tests := map[string]struct {
		args string
		err  string
	}{
		"NoType":         {"--file-output /tmp", "--git-type is missing"},
		"UnknownType":    {"--file-output /tmp --git-type svn", `--git-type "svn" is not known`},
		"NoOrganization": {"--file-output /tmp --git-type github", "--organization is missing"},
		"NoURL":          {"--file-output /tmp --git-type gitlab", "--url is missing"},
		"NoOutput":       {"--git-type github --organization a", "--file-output is missing"},
		"BadURL":         {"--file-output /tmp --git-type gitlab --url gitlab.com", "--url must be an address"},
		"NoTime":         {"--file-output /tmp --git-type github --organization a --activity-since-duration 1d --activity-until-duration 2d", "no time lies between"},
		"BadDuration":    {"--file-output /tmp --git-type github --organization a --activity-since-duration yesterday", "is not a duration"},
		"UnknownOption":  {"--file-output /tmp --git-type github --organisation a", "organisation"},
		"Stray":          {"--file-output /tmp --git-type github --organization a b", `parameter "b"`},
		"BadID":          {"--file-output /tmp --git-type github --organization a --ignore-repos acme/a", "is not an ID"},
		"UnsetVariable":  {"--file-output /tmp --git-type github --organization a --access-token $(GITHUB_TOKEN)", "names a variable that is not set"},
		"BadBool":        {"--file-output /tmp --git-type github --organization a --obey-rate-limit maybe", "maybe"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(strings.Fields(tc.args), func(string) string { return "" }, io.Discard)
			if _, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestTokenOfTheOptionWins(t *testing.T) {
	env := func(n string) string { return "from-" + n }
	for args, want := range map[string]string{
		"--file-output /tmp --git-type github --organization a":                    "from-GITHUB_TOKEN",
		"--file-output /tmp --git-type gitlab --url https://x":                     "from-GITLAB_TOKEN",
		"--file-output /tmp --git-type gitlab --url https://x --access-token mine": "mine",
	} {
		o, err := parseOptions(strings.Fields(args), env, io.Discard)
		if err != nil || o.token != want {
			t.Errorf("%s: token %q, %v, want %q", args, o.token, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	err := Run(t.Context(), Process{Args: []string{"--help"}, Env: func(string) string { return "" }, Stderr: &out})
	if !IsHelp(err) || !strings.Contains(out.String(), "-ignore-groups") {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestFolderThatIsNotThere(t *testing.T) {
	f := newFake(t)
	err := Run(t.Context(), Process{
		Args: []string{"--file-output", filepath.Join(t.TempDir(), "none"), "--git-type", "github", "--organization", "a", "--url", f.URL},
		Env:  func(string) string { return "" }, Stderr: io.Discard,
	})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if len(f.requests) > 0 {
		t.Error("the server was asked before the file could be written")
	}
}
