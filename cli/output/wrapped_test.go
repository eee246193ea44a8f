// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

func wrapped(t *testing.T, columns int, rows [][]string) []string {
	t.Helper()
	var out bytes.Buffer
	w := NewWrapped(&session.Session{Columns: columns}, &out)
	for _, r := range rows {
		w.Texts(r...)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestWrapped(t *testing.T) {
	rows := [][]string{
		{"  scan", "Failed", "Container \"nmap\" fails and is restarted: exited with code 255"},
		{"  parse", "-", ""},
		{"  Not all can be shown to you here, since you may not list Events"},
	}
	for name, tc := range map[string]struct {
		columns int
		want    []string
	}{
		"File": {0, []string{
			`  scan   Failed  Container "nmap" fails and is restarted: exited with code 255`,
			`  parse  -`,
			`  Not all can be shown to you here, since you may not list Events`,
		}},
		"Wide": {80, []string{
			`  scan   Failed  Container "nmap" fails and is restarted: exited with code 255`,
			`  parse  -`,
			`  Not all can be shown to you here, since you may not list Events`,
		}},
		"Narrow": {50, []string{
			`  scan   Failed  Container "nmap" fails and is`,
			`                 restarted: exited with code 255`,
			`  parse  -`,
			`  Not all can be shown to you here, since you may`,
			`  not list Events`,
		}},
		"NoRoom": {30, []string{
			`  scan   Failed`,
			`    Container "nmap" fails and`,
			`    is restarted: exited with`,
			`    code 255`,
			`  parse  -`,
			`  Not all can be shown to you`,
			`  here, since you may not list`,
			`  Events`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wrapped(t, tc.columns, rows)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWrappedAtAnyWidth: no word is broken, and none is lost.
func TestWrappedAtAnyWidth(t *testing.T) {
	rows := [][]string{
		{"State:", "Errored since the Job has reached the specified backoff limit; before that: Container \"nmap\" fails"},
		{"  scanyard logs badarg scanner", "what the scanner has written, with 漏洞扫描 of its own"},
		{"See:", "https://scanyard.example.com/a/link/that/is/longer/than/any/of/these/terminals/and/stays/whole for more"},
	}
	for columns := 1; columns <= 200; columns++ {
		lines := wrapped(t, columns, rows)
		for i, row := range rows {
			text := strings.Join(strings.Fields(strings.Join(row, " ")), " ")
			if all := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); !strings.Contains(all, text) {
				t.Fatalf("at %d columns row %d is not whole:\n%s", columns, i, strings.Join(lines, "\n"))
			}
		}
		for _, line := range lines {
			// What is in front of the last column stays whole, and so do single words.
			if words := strings.Fields(line); termsafe.Width(line) > columns && len(words) > 1 && words[0] != "scanyard" {
				t.Errorf("at %d columns a line has %d: %s", columns, termsafe.Width(line), line)
			}
		}
	}
}

func TestHang(t *testing.T) {
	var out bytes.Buffer
	Hang(&session.Session{Columns: 48}, &out, "FAIL  operator   ", 17, "no Deployment of an operator is there in any namespace")
	want := "FAIL  operator   no Deployment of an operator is\n                 there in any namespace\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
