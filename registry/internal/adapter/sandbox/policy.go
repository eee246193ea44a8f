// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Mode is what is done where the kernel has no Landlock.
type Mode string

// The modes.
const (
	// Prefer confines where the kernel can.
	Prefer Mode = "Prefer"
	// Require refuses to start where the kernel cannot.
	Require Mode = "Require"
	// Off confines nothing.
	Off Mode = "Off"
)

// ErrUnavailable is Require on a kernel that cannot confine.
var ErrUnavailable = errors.New("the kernel has no Landlock that confines files and TCP (it needs Linux 6.7 with Landlock switched on); " +
	"adapterSandbox: Prefer goes on without")

// neededABI is the first version of Landlock that knows TCP.
const neededABI = 4

// Confines tells whether programs are confined in a mode on this machine.
func (m Mode) Confines() (bool, error) {
	switch m {
	case Off:
		return false, nil
	case Prefer:
		return abi() >= neededABI, nil
	case Require:
		if abi() < neededABI {
			return false, ErrUnavailable
		}
		return true, nil
	}
	return false, fmt.Errorf("a sandbox must be Prefer, Require or Off, and not %q", m)
}

// Policy is what a program may do.
type Policy struct {
	// Confine by Landlock. Else only the limits hold.
	Confine bool `json:"confine,omitempty"`
	// Read, Execute (and read) and Write (and read) name files and directories with all below them. What is not there is left out.
	Read    []string `json:"read,omitempty"`
	Execute []string `json:"execute,omitempty"`
	Write   []string `json:"write,omitempty"`
	// Connect are the TCP ports that may be connected to.
	Connect []uint16 `json:"connect,omitempty"`
	// FileBytes is the most that a file may have that the program writes; 0: no bound.
	FileBytes uint64 `json:"fileBytes,omitempty"`
	// OpenFiles is how many files it may have open; 0: no bound.
	OpenFiles uint64 `json:"openFiles,omitempty"`
}

// Subcommand is the argument that makes the worker's program call Main.
const Subcommand = "adapter-exec"

// Arguments are those of the worker's program that confine a program and become it.
func (p Policy) Arguments(program string, arguments ...string) ([]string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return append([]string{Subcommand, string(text), program}, arguments...), nil
}
