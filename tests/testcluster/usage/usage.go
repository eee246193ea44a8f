// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Figures are what a process has used so far.
type Figures struct {
	CPU      time.Duration
	Waited   time.Duration // CPU time of its children that have ended
	Resident int64         // bytes of memory
	Peak     int64         // the most bytes of memory; unlike that of wait(2), it does not begin with the size of the parent
}

// PeakMiB is Peak in MiB.
func (f Figures) PeakMiB() float64 { return float64(f.Peak) / (1 << 20) }

// ticks of /proc/PID/stat make a second on Linux.
const ticks = 100

// Of reads what a process has used. The error of one that is not there any longer is fs.ErrNotExist.
func Of(pid int) (Figures, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Figures{}, err
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Figures{}, err
	}
	f, err := read(string(stat), string(status))
	if err != nil {
		return f, fmt.Errorf("%s: %w", dir, err)
	}
	return f, nil
}

// OfT is Of for a test, which fails where nothing can be read.
func OfT(tb testing.TB, pid int) Figures {
	tb.Helper()
	f, err := Of(pid)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// Tell writes the peak of this process, for a parent that reads its output with [Told].
func Tell(w io.Writer) error {
	f, err := Of(os.Getpid())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "peak memory: %d bytes\n", f.Peak)
	return err
}

var told = regexp.MustCompile(`peak memory: (\d+) bytes`)

// Told is the peak that a process has told, in bytes, as it is in its output.
func Told(tb testing.TB, output string) int64 {
	tb.Helper()
	found := told.FindStringSubmatch(output)
	if found == nil {
		tb.Fatalf("no peak is told in %s", output)
	}
	peak, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return peak
}

// read takes the figures out of the two files.
func read(stat, status string) (f Figures, err error) {
	fields := fieldsOf(stat)
	const user, system, waitedUser, waitedSystem = 11, 12, 13, 14
	if len(fields) <= waitedSystem {
		return f, fmt.Errorf("stat is not as expected: %q", stat)
	}
	for field, into := range map[int]*time.Duration{user: &f.CPU, system: &f.CPU, waitedUser: &f.Waited, waitedSystem: &f.Waited} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return f, fmt.Errorf("stat: %w", err)
		}
		*into += time.Duration(n) * time.Second / ticks
	}
	if f.Resident, err = bytesOf(status, "VmRSS"); err != nil {
		return f, err
	}
	f.Peak, err = bytesOf(status, "VmHWM")
	return f, err
}

// fieldsOf are those behind the program's name, which may hold blanks and brackets: the first one is the state.
func fieldsOf(stat string) []string { return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) }

// bytesOf reads a line of memory. A process that has ended and is not waited for yet has none.
func bytesOf(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("status: %s: %w", name, err)
			}
			return kib << 10, nil
		}
	}
	return 0, nil
}

// Children are the processes that a process has started.
func Children(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		const of = 1
		if fields := fieldsOf(string(stat)); len(fields) <= of || fields[of] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}
