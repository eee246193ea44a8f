// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// BuildCommand builds the binary that Start runs. Tests print it when the
// binary is missing. It is run in the folder of the repository.
const BuildCommand = "make build"

// Options say what cluster to start. Only Binary is required.
type Options struct {
	// Binary is the built cmd/localcluster.
	Binary string
	// DataDir keeps the cluster's files. If empty, a temporary directory is
	// made, and removed by Stop.
	DataDir string
	// APIPort is the API server's port; 0 picks a free one.
	APIPort int
	// S3Port is the S3 server's port; 0 picks a free one.
	S3Port int
	// Node are the settings of the node agent.
	Node NodeOptions
	// JobSyncs is how many Jobs the controller handles at a time; 0 means 10.
	JobSyncs int
	// Audit has the API server write down each request, see Layout.AuditLog.
	Audit bool
	// Env is added to the environment of the cluster's processes.
	Env []string
	// Output receives progress lines; nil drops them.
	Output io.Writer
	// Timeout bounds the start; 0 means a minute.
	Timeout time.Duration
}

// Cluster is a running local cluster.
type Cluster struct {
	// DataDir is where all its files are.
	DataDir string
	// Kubeconfig is the path of the admin's kubeconfig.
	Kubeconfig string
	// ObjectStore says how to reach the S3 server.
	ObjectStore ObjectStore

	control   *Control
	supervise *exec.Cmd // nil if attached
	lifeline  io.Closer
	exited    chan error
	temporary bool
}

// Start runs the binary and returns when the cluster can take Jobs. The
// cluster ends with Stop, and also when the calling process ends in any way.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if _, err := os.Stat(o.Binary); err != nil || o.Binary == "" {
		return nil, fmt.Errorf("local cluster binary %q not found: build it with\n  %s", o.Binary, BuildCommand)
	}
	c := &Cluster{DataDir: o.DataDir, exited: make(chan error, 1)}
	if c.DataDir == "" {
		dir, err := os.MkdirTemp("", "localcluster-")
		if err != nil {
			return nil, fmt.Errorf("start local cluster: %w", err)
		}
		c.DataDir, c.temporary = dir, true
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("start local cluster: %w", err)
	}
	c.DataDir = dir
	var said tail
	if err := c.launch(o, &said); err != nil {
		return nil, fmt.Errorf("start local cluster: %w", err)
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.waitReady(ctx, &said); err != nil {
		return nil, errors.Join(fmt.Errorf("start local cluster: %w", err), c.Stop())
	}
	return c, nil
}

// launch runs "up" in the foreground with a pipe as its stdin: the pipe closes
// when this process ends, however it ends, and the cluster goes with it.
func (c *Cluster) launch(o Options, said *tail) error {
	args := []string{"up", "--data-dir", c.DataDir, "--while-stdin-open", "--api-port", strconv.Itoa(o.APIPort), "--s3-port", strconv.Itoa(o.S3Port)}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	add("--images-map", o.Node.ImagesMap)
	add("--images", o.Node.Images)
	if o.Node.SimNodes > 0 {
		args = append(args, "--sim-nodes", strconv.Itoa(o.Node.SimNodes), "--sim-delay", time.Duration(o.Node.SimDelay).String())
	}
	if o.Node.PodStartDelay > 0 {
		args = append(args, "--pod-start-delay", time.Duration(o.Node.PodStartDelay).String())
	}
	if o.Node.Backoff > 0 {
		args = append(args, "--backoff", time.Duration(o.Node.Backoff).String())
	}
	if o.JobSyncs > 0 {
		args = append(args, "--job-syncs", strconv.Itoa(o.JobSyncs))
	}
	if o.Audit {
		args = append(args, "--audit")
	}
	// The context given to Start bounds the start, not the life of the cluster.
	cmd := exec.Command(o.Binary, args...)
	cmd.Env = append(os.Environ(), o.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = said, said
	if o.Output != nil {
		cmd.Stdout = io.MultiWriter(said, o.Output)
		cmd.Stderr = cmd.Stdout
	}
	// A process group of its own, so that Ctrl-C in a terminal reaches the
	// test, which then stops the cluster in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.supervise, c.lifeline = cmd, in
	go func() { c.exited <- cmd.Wait() }()
	return nil
}

func (c *Cluster) waitReady(ctx context.Context, said *tail) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := LoadState(Layout(c.DataDir))
		switch {
		case err == nil && s.Ready && s.Supervisor.PID == c.supervise.Process.Pid:
			c.fill(s)
			return nil
		case err != nil && !errors.Is(err, ErrNoCluster):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w; it said:\n%s", ctx.Err(), said)
		case err := <-c.exited:
			c.exited <- err
			return fmt.Errorf("ended before it was ready (%w); it said:\n%s", err, said)
		case <-tick.C:
		}
	}
}

func (c *Cluster) fill(s *State) {
	l := Layout(c.DataDir)
	c.Kubeconfig, c.ObjectStore, c.control = l.Kubeconfig(), s.ObjectStore, NewControl(l)
}

// Attach finds the running cluster in a data directory. Stop on an attached
// cluster stops it as "localcluster down" does.
func Attach(dataDir string) (*Cluster, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("attach to local cluster: %w", err)
	}
	s, err := LoadState(Layout(dir))
	if err != nil {
		return nil, fmt.Errorf("attach to local cluster: %w", err)
	}
	if !s.Supervisor.Alive() {
		return nil, fmt.Errorf("attach to local cluster: the one in %s is down: start it with\n  localcluster up --data-dir %s", dir, dir)
	}
	if !s.Ready {
		return nil, fmt.Errorf("attach to local cluster: the one in %s is still starting, or failed to: see %s", dir, Layout(dir).LogFile("supervisor"))
	}
	c := &Cluster{DataDir: dir}
	c.fill(s)
	return c, nil
}

// RESTConfig reads the admin's client configuration, with a client rate limit
// that does not slow tests down.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = 1000, 2000
	return cfg, nil
}

// Stop ends the cluster and waits for it. Files stay if the data directory was
// given in Options, and go if it was temporary.
func (c *Cluster) Stop() error {
	if c.supervise == nil {
		return c.stopAttached()
	}
	// Closing stdin is what --while-stdin-open waits for. It may have been
	// closed by the end of the process already.
	if err := c.lifeline.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("stop local cluster: %w", err)
	}
	select {
	case err := <-c.exited:
		c.exited <- err
	case <-time.After(stopTimeout):
		if err := c.supervise.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop local cluster: %w", err)
		}
		<-c.exited
	}
	if !c.temporary {
		return nil
	}
	if err := os.RemoveAll(c.DataDir); err != nil {
		return fmt.Errorf("stop local cluster: %w", err)
	}
	return nil
}

// stopTimeout is longer than the supervisor takes to kill what does not stop.
const stopTimeout = 20 * time.Second

func (c *Cluster) stopAttached() error {
	s, err := LoadState(Layout(c.DataDir))
	if err != nil {
		return fmt.Errorf("stop local cluster: %w", err)
	}
	return StopSupervisor(c.control, s)
}

// StopSupervisor ends the supervisor named in a state, politely first. Only
// that very process is ever signalled, not a later one with its pid.
func StopSupervisor(ctl *Control, s *State) error {
	if !s.Supervisor.Alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout) // outlives a cancelled test on purpose
	defer cancel()
	if err := ctl.Down(ctx); err != nil {
		if err := s.Supervisor.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop local cluster: %w", err)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Supervisor.Alive() {
		select {
		case <-ctx.Done():
			if err := s.Supervisor.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("stop local cluster: %w", err)
			}
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// Kill ends a component at once, as kill -9 does. It stays down until
// StartComponent.
func (c *Cluster) Kill(ctx context.Context, component string) error {
	return c.control.Do(ctx, ActionKill, component)
}

// StopComponent ends a component in order.
func (c *Cluster) StopComponent(ctx context.Context, component string) error {
	return c.control.Do(ctx, ActionStop, component)
}

// StartComponent starts a component that is down, on the same ports and with
// the same data, and returns when it is ready.
func (c *Cluster) StartComponent(ctx context.Context, component string) error {
	return c.control.Do(ctx, ActionStart, component)
}

// Restart stops a component in order if it runs, and starts it again.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	return c.control.Do(ctx, ActionRestart, component)
}

// Status lists the components with their process ids.
func (c *Cluster) Status(ctx context.Context) ([]ComponentStatus, error) {
	return c.control.Status(ctx)
}

// LogFile is where a component writes its log.
func (c *Cluster) LogFile(component string) string { return Layout(c.DataDir).LogFile(component) }

// tail keeps the last few kilobytes that were written to it, for error messages.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const keep = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - keep; over > 0 {
		t.buf = append([]byte(nil), t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
