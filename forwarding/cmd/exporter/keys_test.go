// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSealedQueue hands a queue from one run of the program to the next, with keys and without.
func TestSealedQueue(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	folder := t.TempDir()
	key := func(name string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(strings.Repeat(name[:1], 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--encryption-key-file=" + path
	}
	old, next := key("old"), key("next")
	r := p.start(t, old)
	send(t, p, 100)
	r.kill(t)
	run := []string{"run", "--dir", p.dir, "--socket", p.socket, "--cluster-id", "c", "--sink", "hub=" + far.URL + ",insecure=true"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"NoKey":       {run, 2, "--encryption-key-file as well"},
		"OtherKey":    {append(slices.Clip(run), next), 2, "--encryption-key-file as well"},
		"NoFile":      {append(slices.Clip(run), "--encryption-key-file=nowhere"), 2, "--encryption-key-file: open nowhere"},
		"Size":        {append(slices.Clip(run), "--encryption-key-file=/dev/null"), 2, "has 0 bytes, and must have 32"},
		"ListNoKey":   {[]string{"queue", "ls", "--dir", p.dir}, 2, "--encryption-key-file as well"},
		"List":        {[]string{"queue", "ls", "--dir", p.dir, old}, 0, ""},
		"Verify":      {[]string{"queue", "verify", "--dir", p.dir, next, old}, 0, ""},
		"SalvageFile": {[]string{"queue", "salvage", "--dir", p.dir, "--output", filepath.Join(folder, "out"), old}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(c.args...)
			var says strings.Builder
			cmd.Stderr = &says
			_ = cmd.Run() // the exit code is what counts
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(says.String(), c.says) {
				t.Errorf("exit %d, %s", code, &says)
			}
		})
	}
	if content, err := os.ReadFile(filepath.Join(folder, "out")); err != nil || strings.Count(string(content), "\n") != 100 {
		t.Errorf("%d lines, %v", strings.Count(string(content), "\n"), err)
	}
	far.answer(http.StatusOK)
	r = p.start(t, next, old)
	r.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(100); lost > 0 {
		t.Errorf("%d are lost", lost)
	}
	r.kill(t)
	if err := os.WriteFile(filepath.Join(p.dir, "format"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(append(slices.Clip(run), next, old)...)
	output, _ := cmd.CombinedOutput() // the exit code is what counts
	if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(string(output), "has format 2") {
		t.Errorf("exit %d, %s", code, output)
	}
}
