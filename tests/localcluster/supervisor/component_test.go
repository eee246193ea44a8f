// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster/process"
)

// TestStart holds that a component which ends before it is ready is run again, and how often.
func TestStart(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		starts int
		want   string // "" where the start succeeds
	}{
		"AtOnce":     {"touch ready; exec sleep 60", 1, ""},
		"SecondTime": {"[ -e tried ] || { touch tried; exit 3; }; touch ready; exec sleep 60", 2, ""},
		"Never":      {"echo the port is taken; exit 3", maxStarts, "the port is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := &component{
				name: "part", bin: "/bin/sh", args: []string{"-c", "cd " + dir + "; " + tc.script}, log: filepath.Join(dir, "log"),
				ready: func(context.Context) error { _, err := os.Stat(filepath.Join(dir, "ready")); return err },
				spawn: process.NewSpawner(),
			}
			err := c.start(t.Context(), time.Now)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			if got := c.status().Starts; got != tc.starts {
				t.Errorf("got %d starts, want %d", got, tc.starts)
			}
			if err := c.end(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
	}
}
