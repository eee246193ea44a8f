// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestIdentityOfAChild(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := NewSpawner().Start(cmd); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	later := id
	later.Start++
	if !id.Alive() || later.Alive() {
		t.Errorf("alive: got %t, and %t for another start time", id.Alive(), later.Alive())
	}
	if err := later.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a later process of the pid: got %v", err)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed process ended well")
	}
	if id.Alive() {
		t.Error("alive after its end")
	}
	if (Identity{}).Alive() {
		t.Error("no process is alive")
	}
}

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		start uint64
		state byte
		fails bool
	}{
		"Plain":       {"12 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20", 4242, 'S', false},
		"Parentheses": {"12 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 7 20", 7, 'R', false},
		"Short":       {"12 (sh) S 1 2", 0, 0, true},
		"NoCommand":   {"12 S", 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			start, state, err := parseStat([]byte(c.line))
			if (err != nil) != c.fails || start != c.start || (err == nil && state != c.state) {
				t.Errorf("got %d %c %v", start, state, err)
			}
		})
	}
}
