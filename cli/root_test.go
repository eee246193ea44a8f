// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/scanyard/scanyard/cli/session"
)

func newRoot(t *testing.T, name string) (*session.Session, *cobra.Command, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	s, err := session.New(session.Options{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out},
		Program: name, Version: "v1", Getenv: func(string) string { return "" }, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, NewCommand(s), &out
}

func each(c *cobra.Command, do func(*cobra.Command)) {
	for _, child := range c.Commands() {
		do(child)
		each(child, do)
	}
}

// TestEveryCommandIsDocumented: what --help and the reference are made of is there.
func TestEveryCommandIsDocumented(t *testing.T) {
	_, root, _ := newRoot(t, "scanyard")
	count := 0
	each(root, func(c *cobra.Command) {
		count++
		path := c.CommandPath()
		switch {
		case c.Long == "" || c.Short == "":
			t.Errorf("%s has no text", path)
		case strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: its short text ends with a full stop", path)
		case !strings.HasSuffix(strings.TrimSpace(c.Long), ".") && !strings.Contains(c.Long, "\n  "):
			t.Errorf("%s: its long text is not a sentence", path)
		case c.Example == "" && c.Name() != "options":
			t.Errorf("%s has no example", path)
		case strings.Contains(c.Example, program):
			t.Errorf("%s: the program's name is missing in its example", path)
		}
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, "scanyard ") {
				t.Errorf("%s: %q is neither a comment nor a command", path, line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: its text is %q", path, f.Name, f.Usage)
			}
		})
	})
	if count < 24 {
		t.Errorf("there are only %d commands", count)
	}
}

// TestFlagsDoNotHideKubectls: a flag of a command has no name of a global one.
func TestFlagsDoNotHideKubectls(t *testing.T) {
	_, root, _ := newRoot(t, "scanyard")
	each(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if g := root.PersistentFlags().Lookup(f.Name); g != nil && g != f {
				t.Errorf("%s --%s hides the global flag", c.CommandPath(), f.Name)
			}
			if f.Shorthand == "" {
				return
			}
			if g := root.PersistentFlags().ShorthandLookup(f.Shorthand); g != nil && g != f {
				t.Errorf("%s -%s hides the global flag --%s", c.CommandPath(), f.Shorthand, g.Name)
			}
		})
	})
}

func TestUsageErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"Flag":    {[]string{"get", "--nonsense"}, "unknown flag: --nonsense\nSee: kubectl scanyard get --help"},
		"Args":    {[]string{"wait"}, "accepts 1 arg(s), received 0\nSee: kubectl scanyard wait --help"},
		"Command": {[]string{"scna"}, `unknown command "scna" for "kubectl scanyard"`},
		"Server":  {[]string{"get", "-s", "https://127.0.0.1:1"}, "unknown shorthand flag: 's' in -s"},
		"Short": {
			[]string{"scan", "nmap", "-sV", "127.0.0.1"},
			"unknown shorthand flag: 's' in -sV: parameters of the scanner go behind --: kubectl scanyard scan nmap -- -sV 127.0.0.1\nSee: kubectl scanyard scan --help",
		},
		"Long": {
			[]string{"-n", "team-a", "scan", "nmap", "--top-ports", "10", "host"},
			"unknown flag: --top-ports: parameters of the scanner go behind --: kubectl scanyard -n team-a scan nmap -- --top-ports 10 host",
		},
		"Near":       {[]string{"scan", "nmap", "--wiat"}, "unknown flag: --wiat: did you mean --wait? parameters of the scanner go behind --: "},
		"Positional": {[]string{"scan", "nmap", "host", "--wait"}, "there is more than a type: host: parameters of the scanner go behind --: kubectl scanyard scan nmap --wait -- host"},
		"Namespace": {
			[]string{"scan", "nmap", "-n", "127.0.0.1"},
			"-n 127.0.0.1: that is not a valid name of a namespace: parameters of the scanner go behind --: kubectl scanyard scan nmap -- -n 127.0.0.1",
		},
		"TypeMissing": {[]string{"scan", "--", "host"}, "the type of the scan is missing: kubectl scanyard scan TYPE -- PARAMETERS"},
	} {
		t.Run(name, func(t *testing.T) {
			s, root, out := newRoot(t, "kubectl scanyard")
			s.Args = tc.args
			root.SetArgs(tc.args)
			code := End(s, root.ExecuteContext(t.Context()))
			if code != session.CodeErrored || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}
