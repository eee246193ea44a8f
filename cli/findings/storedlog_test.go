// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"strings"
	"testing"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
)

// TestLogsWhenThePodsAreGone: "scanyard logs" shows the end of the scanner's log as it is stored, and says so; where none is,
// it says what the Scan ended with instead of sending to another command.
func TestLogsWhenThePodsAreGone(t *testing.T) {
	w := clitest.New(t, cluster)
	s := w.Scan("badarg", nil, nil, func(s *executionv1.Scan) {
		s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, "exited with code 255: unrecognized option"
	})
	w.Put(s, executionv1.ScannerLogFile, []byte("Starting\nnmap: unrecognized option '--nosuchflag'\n"))
	w.Scan("nothing", nil, nil, func(s *executionv1.Scan) {
		s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, "exited with code 3"
	})
	const note = "The pods are gone; this is the end of the scanner's log as stored:\n"
	for name, tc := range map[string]struct {
		args           []string
		out, says      string
		doesNotSuggest string
	}{
		"Scanner":     {[]string{"logs", "badarg", "scanner"}, "[scanner] Starting\n[scanner] nmap: unrecognized option '--nosuchflag'\n", note, ""},
		"Everything":  {[]string{"logs", "badarg", "--no-prefix", "--tail", "1"}, "nmap: unrecognized option '--nosuchflag'\n", note, ""},
		"Parser":      {[]string{"logs", "badarg", "parser"}, "", "There are no logs (any more): the pods of this scan were removed.\n", note},
		"NothingKept": {[]string{"logs", "nothing", "scanner"}, "", "storage has no end of the scanner's log.\nWhat the Scan says: exited with code 3\n", "scanyard describe"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.Run(tc.args...)
			if got.Code != 0 || got.Out != tc.out || !strings.Contains(got.Err, tc.says) || tc.doesNotSuggest != "" && strings.Contains(got.Err, tc.doesNotSuggest) {
				t.Errorf("exit code %d\nstdout: %s\nstderr: %s", got.Code, got.Out, got.Err)
			}
		})
	}
}
