// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The stand-ins note how they were called in $CALLS, do what a case says, and end as it says.
const standIn = `#!/bin/sh
printf '%s %s\n' "${0##*/}" "$*" >>"$CALLS"
`

func TestWrappers(t *testing.T) {
	tests := map[string]struct {
		reason  string
		recipe  string
		tool    string
		does    string // what the stand-in does, as shell
		args    []string
		code    int
		calls   []string
		result  string
		missing bool // there must be no result file
	}{
		"NiktoFindsNothing":         {reason: "a clean end", recipe: "scanner-nikto", tool: "nikto.pl", does: `echo '{}' >"$2"`, args: []string{"-o", "RESULT", "-h", "x"}, calls: []string{"nikto.pl -o RESULT -h x"}, result: "{}\n"},
		"NiktoFinds":                {reason: "findings are not a failure", recipe: "scanner-nikto", tool: "nikto.pl", does: `echo '[1]' >"$2"; exit 1`, args: []string{"-o", "RESULT"}, calls: []string{"nikto.pl -o RESULT"}, result: "[1]\n"},
		"NiktoNotThere":             {reason: "always 0", recipe: "scanner-nikto", tool: "other", args: []string{"-o", "RESULT"}, missing: true},
		"NiktoArgumentsWithSpaces":  {reason: "arguments stay what they are", recipe: "scanner-nikto", tool: "nikto.pl", does: `printf '%s' "$3" >"$2"`, args: []string{"-o", "RESULT", "a b  *"}, calls: []string{"nikto.pl -o RESULT a b  *"}, result: "a b  *"},
		"SslyzeFine":                {reason: "a clean end", recipe: "scanner-sslyze", tool: "sslyze", does: `echo '{}' >"$2"`, args: []string{"--json_out", "RESULT", "x"}, calls: []string{"sslyze --json_out RESULT x"}, result: "{}\n"},
		"SslyzeNotCompliant":        {reason: "a server against the profile is a finding", recipe: "scanner-sslyze", tool: "sslyze", does: `echo '{}' >"$2"; exit 1`, args: []string{"--json_out", "RESULT"}, calls: []string{"sslyze --json_out RESULT"}, result: "{}\n"},
		"SslyzeAsModule":            {reason: "images without the command have the module", recipe: "scanner-sslyze", tool: "python3", does: `echo "$1 $2" >"$4"; exit 3`, args: []string{"--json_out", "RESULT"}, calls: []string{"python3 -m sslyze --json_out RESULT"}, result: "-m sslyze\n"},
		"WpscanFine":                {reason: "a clean end", recipe: "scanner-wpscan", tool: "wpscan", args: []string{"-o", "RESULT", "-f", "json"}, calls: []string{"wpscan -o RESULT -f json"}, missing: true},
		"WpscanWrongOption":         {reason: "1 is passed on", recipe: "scanner-wpscan", tool: "wpscan", does: "exit 1", code: 1, calls: []string{"wpscan "}, missing: true},
		"WpscanInterrupted":         {reason: "2 is passed on", recipe: "scanner-wpscan", tool: "wpscan", does: "exit 2", code: 2, calls: []string{"wpscan "}, missing: true},
		"WpscanException":           {reason: "3 is passed on", recipe: "scanner-wpscan", tool: "wpscan", does: "exit 3", code: 3, calls: []string{"wpscan "}, missing: true},
		"WpscanError":               {reason: "4 is passed on", recipe: "scanner-wpscan", tool: "wpscan", does: "exit 4", code: 4, calls: []string{"wpscan "}, missing: true},
		"WpscanVulnerable":          {reason: "5 is what a scan is for", recipe: "scanner-wpscan", tool: "wpscan", does: "exit 5", calls: []string{"wpscan "}, missing: true},
		"WpscanKilled":              {reason: "any other becomes 0", recipe: "scanner-wpscan", tool: "wpscan", does: "kill -9 $$", calls: []string{"wpscan "}, missing: true},
		"SshAuditFine":              {reason: "a clean end", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo '{}'", args: []string{"x"}, calls: []string{"ssh-audit.py -j x"}, result: "{}\n"},
		"SshAuditFindsWarnings":     {reason: "2 grades the server", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo '{}'; exit 2", calls: []string{"ssh-audit.py -j"}, result: "{}\n"},
		"SshAuditFindsFailures":     {reason: "3 grades the server", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo '{}'; exit 3", calls: []string{"ssh-audit.py -j"}, result: "{}\n"},
		"SshAuditCannotConnect":     {reason: "1 is a failure without a result", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo 'cannot connect'; exit 1", code: 1, calls: []string{"ssh-audit.py -j"}, missing: true},
		"SshAuditUnknownError":      {reason: "-1 is a failure without a result", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo half; exit 255", code: 255, calls: []string{"ssh-audit.py -j"}, missing: true},
		"SshAuditStartedAgain":      {reason: "what an earlier try left is gone", recipe: "scanner-ssh-audit", tool: "ssh-audit.py", does: "echo '{}'", args: []string{"LEFTOVER"}, calls: []string{"ssh-audit.py -j LEFTOVER"}, result: "{}\n"},
		"KubeHunterFine":            {reason: "its output is the result", recipe: "scanner-kube-hunter", tool: "kube-hunter", does: "echo '{}'; echo log >&2", args: []string{"--report", "json"}, calls: []string{"kube-hunter --report json"}, result: "{}\n"},
		"KubeHunterFails":           {reason: "its exit code is the wrapper's", recipe: "scanner-kube-hunter", tool: "kube-hunter", does: "exit 7", code: 7, calls: []string{"kube-hunter "}},
		"ScreenshotAtOnce":          {reason: "one try is enough", recipe: "scanner-screenshooter", tool: "firefox", does: `echo png >"$2"`, args: []string{"-screenshot", "RESULT", "http://x"}, calls: []string{"firefox -screenshot RESULT http://x"}, result: "png\n"},
		"ScreenshotAtSecondTry":     {reason: "the first start may only make a profile", recipe: "scanner-screenshooter", tool: "firefox", does: `[ "$(wc -l <"$CALLS")" -gt 1 ] && echo png >"$2"; exit 1`, args: []string{"-screenshot", "RESULT", "http://x"}, calls: []string{"firefox -screenshot RESULT http://x", "firefox -screenshot RESULT http://x"}, result: "png\n"},
		"ScreenshotNever":           {reason: "two tries, then an empty file", recipe: "scanner-screenshooter", tool: "firefox", does: "exit 1", args: []string{"-screenshot", "RESULT", "http://x"}, calls: []string{"firefox -screenshot RESULT http://x", "firefox -screenshot RESULT http://x"}},
		"ScreenshotHangs":           {reason: "each try has its time", recipe: "scanner-screenshooter", tool: "firefox", does: "exec sleep 60", args: []string{"-screenshot", "RESULT", "http://x"}, calls: []string{"firefox -screenshot RESULT http://x", "firefox -screenshot RESULT http://x"}},
		"ScreenshotOfAnEarlierTry":  {reason: "is not this one's", recipe: "scanner-screenshooter", tool: "firefox", does: "exit 1", args: []string{"-screenshot", "RESULT", "LEFTOVER"}, calls: []string{"firefox -screenshot RESULT LEFTOVER", "firefox -screenshot RESULT LEFTOVER"}},
		"ScreenshotWithTwoDashes":   {reason: "Firefox takes both", recipe: "scanner-screenshooter", tool: "firefox", does: `echo png >"$2"`, args: []string{"--screenshot", "RESULT"}, calls: []string{"firefox --screenshot RESULT"}, result: "png\n"},
		"ScreenshotWithoutArgument": {reason: "a command line without the file is an error", recipe: "scanner-screenshooter", tool: "firefox", args: []string{"http://x"}, code: 1, missing: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			result, calls := filepath.Join(dir, "result"), filepath.Join(dir, "calls")
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			linkTools(t, bin)
			if err := os.WriteFile(filepath.Join(bin, tc.tool), []byte(standIn+tc.does+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			args := []string{filepath.Join(tc.recipe, "wrapper.sh")}
			for _, a := range tc.args {
				if a == "LEFTOVER" {
					if err := os.WriteFile(result, []byte("left over"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				args = append(args, strings.ReplaceAll(a, "RESULT", result))
			}
			cmd := exec.Command("/bin/sh", args...)
			cmd.Env = []string{"PATH=" + bin, "CALLS=" + calls, "RESULT_FILE=" + result, "SCREENSHOT_SECONDS=1"}
			if out, err := cmd.CombinedOutput(); exitCode(t, err) != tc.code {
				t.Errorf("%s: exit code %d, want %d: %s", tc.reason, exitCode(t, err), tc.code, out)
			}
			got, err := os.ReadFile(calls)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(strings.Join(append(tc.calls, ""), "\n"), "RESULT", result)
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("%s: calls %s", tc.reason, diff)
			}
			content, err := os.ReadFile(result)
			if errors.Is(err, os.ErrNotExist) != tc.missing || !bytes.Equal(content, []byte(tc.result)) {
				t.Errorf("%s: result %q, %v", tc.reason, content, err)
			}
		})
	}
}

// linkTools gives the scripts the few programs that their images have beside the shell, and no others.
func linkTools(t *testing.T, bin string) {
	t.Helper()
	for _, tool := range []string{"rm", "timeout", "sleep", "wc"} {
		at, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}
