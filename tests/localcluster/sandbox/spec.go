// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// ProcessName is the argv[0] that makes the program a sandbox instead of what
// it usually is.
const ProcessName = "localcluster-sandbox"

// File descriptors of the sandboxed process.
const (
	specFD  = 3
	errorFD = 4
)

// Mount binds a file or directory into the container.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Spec is everything a sandbox needs to know. Paths of the machine are
// absolute.
type Spec struct {
	// Join is the process whose container is entered to run Args in it; zero
	// makes a new container.
	Join int
	// Root is the directory with the image's files, "/" for the machine's own.
	Root string
	// Scratch is an empty directory for what the container writes.
	Scratch string
	// ReadOnlyRoot forbids writes outside of mounts.
	ReadOnlyRoot bool
	Mounts       []Mount
	Args         []string
	Env          []string
	WorkingDir   string
	Hostname     string
	UID, GID     int
	Groups       []int
	// Capabilities that the container may hold; the rest are given up.
	Capabilities []int
	// AllCapabilities keeps every capability (a privileged container).
	AllCapabilities bool
	// NoNewPrivileges stops setuid programs from raising rights.
	NoNewPrivileges bool
	// Cgroups are the cgroup.procs files that the process enters.
	Cgroups []string
	// Rootless says that a user namespace stands for root's rights.
	Rootless bool
}

// Command makes a command that runs this program as a sandbox. Start it, then
// call the returned function once: it hands over the spec and returns when the
// container's program runs, or with the reason why it does not.
func Command(s *Spec) (*exec.Cmd, func() error, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, nil, fmt.Errorf("encode sandbox: %w", err)
	}
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make sandbox pipe: %w", err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		closeAll(specR, specW)
		return nil, nil, fmt.Errorf("make sandbox pipe: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{ProcessName}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = []*os.File{specR, errW}
	cmd.SysProcAttr = attributes(s)
	handOver := func() error {
		closeAll(specR, errW) // the child has its own
		defer closeAll(errR)
		if cmd.Process == nil {
			closeAll(specW)
			return nil // Start failed and has said why
		}
		_, err := specW.Write(b)
		closeAll(specW)
		said, readErr := io.ReadAll(io.LimitReader(errR, 64<<10))
		if len(said) > 0 {
			return &StartError{Reason: string(said)}
		}
		if err == nil {
			err = readErr
		}
		return err
	}
	return cmd, handOver, nil
}

// StartError says why a container's program could not be started.
type StartError struct{ Reason string }

// Error is the sandbox's own words.
func (e *StartError) Error() string { return e.Reason }

func attributes(s *Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if s.Join != 0 {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if s.Rootless {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: s.UID, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: s.GID, HostID: os.Getgid(), Size: 1}}
		// A user other than 0 loses its rights over the new namespaces when it
		// executes, unless they are ambient: chown, dac_override, fowner,
		// setgid, setuid, setpcap, sys_chroot, sys_admin.
		a.AmbientCaps = []uintptr{0, 1, 3, 6, 7, 8, 18, 21}
	}
	return a
}

// closeAll closes pipe ends whose content has been dealt with.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // a pipe end: nothing is buffered
	}
}
