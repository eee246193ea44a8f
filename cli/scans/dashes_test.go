// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

func TestWithDashes(t *testing.T) {
	s, _ := newSession("")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"ShortFlag":       {[]string{"nmap", "-sV", "127.0.0.1"}, "nmap -- -sV 127.0.0.1"},
		"LongFlag":        {[]string{"nmap", "--script", "vuln", "host"}, "nmap -- --script vuln host"},
		"Positional":      {[]string{"nmap", "host"}, "nmap -- host"},
		"OursInFront":     {[]string{"nmap", "-sV", "host", "--wait", "--timeout", "10m", "--fail-on=low"}, "nmap --wait --timeout 10m --fail-on=low -- -sV host"},
		"Namespace":       {[]string{"-n", "team-a", "nmap", "-p", "80"}, "-n team-a nmap -- -p 80"},
		"NoNamespace":     {[]string{"nmap", "-n", "127.0.0.1"}, "nmap -- -n 127.0.0.1"},
		"BehindAlready":   {[]string{"nmap", "-sV", "--", "-n", "host"}, "nmap -- -sV -n host"},
		"Spaces":          {[]string{"nmap", "--script-args", "a b"}, "nmap -- --script-args 'a b'"},
		"NotOursIfJoined": {[]string{"nmap", "-oX", "-", "-nteam"}, "nmap -- -oX - -nteam"},
		"Server":          {[]string{"nmap", "-s", "V"}, "nmap -- -s V"},
		"Cut":             {[]string{"nmap", "host", "--timeout"}, "nmap --timeout -- host"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := NewScanCommand(s)
			global := pflag.NewFlagSet("", pflag.ContinueOnError)
			s.BindFlags(global)
			cmd.Flags().AddFlagSet(global)
			if got := view.Quoted(withDashes(cmd.Flags(), tt.args)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestServerFlagHasNoShorthand: -s is an option of scanners, not the address of an API server.
func TestServerFlagHasNoShorthand(t *testing.T) {
	s := &session.Session{}
	other, _ := newSession("")
	s.ConfigFlags = other.ConfigFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.BindFlags(flags)
	if flags.ShorthandLookup("s") != nil || flags.Lookup("server") == nil || flags.ShorthandLookup("n") == nil {
		t.Error("want --server, no -s, and -n")
	}
}
