// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Identity is a process that cannot be confused with a later one of the same pid.
type Identity struct {
	PID int `json:"pid,omitempty"`
	// Start is the kernel's start time of the process, in clock ticks since boot.
	Start uint64 `json:"start,omitempty"`
	// Boot is the kernel's id of the boot that Start counts from.
	Boot string `json:"boot,omitempty"`
}

// Identify reads the identity of a running process.
func Identify(pid int) (Identity, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	start, state, err := parseStat(b)
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, os.ErrProcessDone)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive tells whether this very process still runs.
func (i Identity) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// Signal sends a signal to this very process; to a later process of the same
// pid it sends nothing and returns os.ErrProcessDone.
func (i Identity) Signal(sig syscall.Signal) error {
	if !i.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(i.PID, sig)
}

// parseStat takes start time and state out of a /proc/PID/stat line. The
// command in parentheses may itself hold spaces and parentheses, so fields are
// counted from its last closing one.
func parseStat(b []byte) (start uint64, state byte, err error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, 0, fmt.Errorf("stat line without a command: %q", b)
	}
	f := bytes.Fields(b[end+1:])
	const stateField, startField = 0, 19 // fields 3 and 22 of the whole line
	if len(f) <= startField {
		return 0, 0, fmt.Errorf("stat line with %d fields: %q", len(f), b)
	}
	start, err = strconv.ParseUint(string(f[startField]), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("stat line: %w", err)
	}
	return start, f[stateField][0], nil
}
