// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// Process is an operator that runs as a process of this machine instead of a pod, so
// that a test can kill it and start it again at any moment.
type Process struct {
	// Log is the file with what all its lives have logged.
	Log string
	// Profiles is the address where it serves profiles (net/http/pprof).
	Profiles string

	newCommand func(*os.File) *exec.Cmd

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// NewProcess prepares an operator for a cluster. Its addresses stay the same over all
// its lives.
func NewProcess(p Programs, kubeconfig, log string, s localcluster.ObjectStore, args ...string) (*Process, error) {
	free, err := ports.Free(4)
	if err != nil {
		return nil, fmt.Errorf("prepare the operator: %w", err)
	}
	host, port, err := net.SplitHostPort(s.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("prepare the operator: %w", err)
	}
	args = append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace,
		"--metrics-bind-address=" + loopback(free[0]), "--health-probe-bind-address=" + loopback(free[1]),
		"--upload-endpoint-bind-address=" + loopback(free[2]), "--upload-endpoint-url=https://" + loopback(free[2]),
		"--pprof-bind-address=" + loopback(free[3]),
	}, args...)
	env := append(os.Environ(),
		"S3_ENDPOINT="+host, "S3_PORT="+port, "S3_USE_SSL=false", "S3_BUCKET="+s.Bucket, "S3_REGION="+s.Region, "S3_PATH_STYLE=true",
		"MINIO_ACCESS_KEY="+s.AccessKey, "MINIO_SECRET_KEY="+s.SecretKey,
		"LURKER_IMAGE=docker.io/scanyard/lurker:process", "LURKER_PULL_POLICY=IfNotPresent")
	return &Process{Log: log, Profiles: "http://" + loopback(free[3]), newCommand: func(out *os.File) *exec.Cmd {
		cmd := exec.Command(p.Path("operator"), args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
		// It goes with the test, however that ends.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}}, nil
}

// Start starts the operator; it does not wait until it is ready.
func (p *Process) Start() error {
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	cmd, exited := p.newCommand(out), make(chan struct{})
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the operator: %w", err), out.Close())
	}
	go func() {
		// How it ended does not matter here: tests kill it.
		_ = cmd.Wait()
		_ = out.Close()
		close(exited)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.exited = cmd, exited
	return nil
}

// life is the operator's present life, or its last.
func (p *Process) life() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.exited
}

// Kill ends the operator at once, as kill -9 does, and waits until it is gone.
func (p *Process) Kill() error {
	cmd, exited := p.life()
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the operator: %w", err)
	}
	<-exited
	return nil
}

// PID is the process of the operator's present life, or of its last.
func (p *Process) PID() int {
	cmd, _ := p.life()
	return cmd.Process.Pid
}

// Keep starts the operator again whenever it ends, as a Deployment does, until the
// context ends; then it kills it.
func (p *Process) Keep(ctx context.Context) error {
	for {
		_, exited := p.life()
		select {
		case <-ctx.Done():
			return p.Kill()
		case <-exited:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartPause):
		}
		if err := p.Start(); err != nil {
			return err
		}
	}
}

// restartPause keeps an operator that cannot start from being started without end.
const restartPause = 200 * time.Millisecond
