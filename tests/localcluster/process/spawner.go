// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"runtime"
)

// Spawner starts child processes that the kernel kills when this process ends.
// It starts them from one operating system thread that never ends: the kernel
// sends Pdeathsig when the starting thread ends, not the process, and Go ends
// threads as it likes.
type Spawner struct {
	jobs chan spawnJob
}

type spawnJob struct {
	cmd *exec.Cmd
	err chan<- error
}

// NewSpawner starts the thread.
func NewSpawner() *Spawner {
	s := &Spawner{jobs: make(chan spawnJob)}
	go func() {
		runtime.LockOSThread()
		for j := range s.jobs {
			j.err <- j.cmd.Start()
		}
	}()
	return s
}

// Start is cmd.Start on the spawner's thread. The command says itself, by
// SysProcAttr.Pdeathsig, with which signal it wants to end.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	s.jobs <- spawnJob{cmd, err}
	return <-err
}
