// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const stat = "77 (odd ) name) S 1 77 77 0 -1 4194560 900 0 3 0 150 50 20 5 20 0 9 0 12345 1 1\n"
	const status = "Name:\todd\nVmPeak:\t  99999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	for name, c := range map[string]struct {
		stat, status string
		want         Figures
		says         string
	}{
		"Running":  {stat, status, Figures{CPU: 2 * time.Second, Waited: 250 * time.Millisecond, Resident: 1 << 20, Peak: 2 << 20}, ""},
		"Ended":    {stat, "Name:\todd\n", Figures{CPU: 2 * time.Second, Waited: 250 * time.Millisecond}, ""},
		"Short":    {"77 (x) S 1", status, Figures{}, "stat is not as expected"},
		"OddTime":  {strings.Replace(stat, " 150 ", " x ", 1), status, Figures{}, `stat: strconv.ParseInt: parsing "x"`},
		"OddBytes": {stat, "VmRSS:\tmany kB\n", Figures{}, "status: VmRSS"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(c.stat, c.status)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestProcesses(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	children, err := Children(os.Getpid())
	if err != nil || !slices.Contains(children, cmd.Process.Pid) {
		t.Errorf("children %v, want %d: %v", children, cmd.Process.Pid, err)
	}
	self, err := Of(os.Getpid())
	if err != nil || self.Resident == 0 || self.Peak < self.Resident {
		t.Errorf("%+v %v", self, err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	if _, err := Of(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// What a process tells of itself is read in what it has printed.
func TestTold(t *testing.T) {
	var out strings.Builder
	if err := Tell(&out); err != nil {
		t.Fatal(err)
	}
	if peak := Told(t, "before\n"+out.String()+"after\n"); peak < 1<<20 {
		t.Errorf("%d bytes in %q", peak, out.String())
	}
}
