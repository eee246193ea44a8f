// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/process"
)

// stopGrace is how long a component may take to end in order.
const stopGrace = 5 * time.Second

// component is one child process that can be started and ended many times.
type component struct {
	name  string
	bin   string
	args  []string
	log   string
	ready func(context.Context) error
	spawn *process.Spawner

	// op is held during a start or a stop, mu only while fields are touched.
	op sync.Mutex
	mu sync.Mutex

	cmd    *exec.Cmd
	done   chan struct{} // closed when cmd has been waited for
	since  time.Time
	starts int
	exit   string
}

// maxStarts is how often a component is run until it is ready.
const maxStarts = 3

// errEnded says that a component ended before it was ready.
var errEnded = errors.New("it ended")

// start runs the component and returns when it is ready. A component that ends before is run again, as a kubelet does:
// kube-apiserver gives up where a hook of its start takes longer than 30 seconds, which happens on a busy machine.
func (c *component) start(ctx context.Context, now func() time.Time) error {
	c.op.Lock()
	defer c.op.Unlock()
	if _, running := c.running(); running {
		return fmt.Errorf("%s runs already", c.name)
	}
	var err error
	for range maxStarts {
		if err = c.runUntilReady(ctx, now); !errors.Is(err, errEnded) {
			return err
		}
	}
	return fmt.Errorf("after %d starts: %w", maxStarts, err)
}

// runUntilReady runs the component once. The error is errEnded where the component ended before it was ready.
func (c *component) runUntilReady(ctx context.Context, now func() time.Time) error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()
	cmd := exec.Command(c.bin, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.spawn.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	done := make(chan struct{})
	c.mu.Lock()
	c.cmd, c.done, c.since, c.exit = cmd, done, now(), ""
	c.starts++
	c.mu.Unlock()
	go func() {
		err := cmd.Wait()
		c.mu.Lock()
		c.exit = "ended in order"
		if err != nil {
			c.exit = err.Error()
		}
		c.mu.Unlock()
		close(done)
	}()
	return c.waitReady(ctx, done)
}

func (c *component) waitReady(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("start %s: %w (%s); the end of its log %s:\n%s", c.name, errEnded, c.status().Exit, c.log, lastLines(c.log))
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready (%w), last seen: %w; see %s", c.name, ctx.Err(), err, c.log)
		case <-tick.C:
		}
	}
}

// running returns the process and whether it still runs.
func (c *component) running() (*os.Process, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return nil, false
	}
	select {
	case <-c.done:
		return nil, false
	default:
		return c.cmd.Process, true
	}
}

// end sends the signal, then SIGKILL if that is not obeyed, and waits.
func (c *component) end(sig syscall.Signal) error {
	c.op.Lock()
	defer c.op.Unlock()
	p, running := c.running()
	if !running {
		return nil
	}
	// A component that ended a moment ago is what was asked for.
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(stopGrace):
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-c.done
	return nil
}

func (c *component) status() localcluster.ComponentStatus {
	p, running := c.running()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := localcluster.ComponentStatus{Name: c.name, Running: running, Starts: c.starts, Exit: c.exit, Since: c.since}
	if running {
		s.PID = p.Pid
	}
	return s
}

// lastLines reads the end of a log for an error message; a log that cannot be
// read has nothing to add to that message.
func lastLines(path string) string {
	const most = 2 << 10
	b, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}
