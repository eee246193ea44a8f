// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

const (
	killed     = syscall.SIGKILL
	terminated = syscall.SIGTERM
	// maxTree bounds how many processes of an adapter are looked at.
	maxTree = 1000
	kibi    = 1024
)

// runThread does work on one thread, which never ends.
func runThread(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// alone gives a process a session and group of its own, and ends it with this program.
func alone() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup tells all of a process group. A group that is gone needs no signal.
func signalGroup(pid int, signal syscall.Signal) {
	_ = syscall.Kill(-pid, signal) // the only error is that the group is gone
}

// resident is the memory of a process and of what it has started, in bytes. What cannot be read has ended.
func resident(pid int) int64 {
	total, pids := int64(0), []int{pid}
	for i := 0; i < len(pids) && i < maxTree; i++ {
		directory := "/proc/" + strconv.Itoa(pids[i])
		if fields := fieldsOf(directory + "/statm"); len(fields) > 1 {
			total += fields[1] * int64(os.Getpagesize())
		}
		tasks, err := os.ReadDir(directory + "/task")
		if err != nil {
			continue
		}
		for _, task := range tasks {
			for _, child := range fieldsOf(directory + "/task/" + task.Name() + "/children") {
				pids = append(pids, int(child))
			}
		}
	}
	return total
}

func fieldsOf(path string) []int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var numbers []int64
	for field := range bytes.FieldsSeq(text) {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return numbers
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// peakOf is the most memory that a process has had, as the kernel counts.
func peakOf(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss * kibi
	}
	return 0
}

// exitOf tells how a process ended that nobody asked to.
func exitOf(state *os.ProcessState) *CrashError {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return &CrashError{Reason: Exited, Message: "the adapter was ended", ExitCode: -1, Signal: status.Signal().String()}
	case state.ExitCode() == 0:
		return &CrashError{Reason: ProtocolError, Message: "the adapter ended without an answer"}
	}
	return &CrashError{Reason: Exited, Message: fmt.Sprintf("the adapter ended with code %d", state.ExitCode()), ExitCode: state.ExitCode()}
}
