// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/objectstore"
	"github.com/scanyard/scanyard/tests/localcluster/process"
)

// NodeName is the node that runs real processes.
const NodeName = "local"

// Supervisor runs one cluster.
type Supervisor struct {
	layout     localcluster.Layout
	state      *localcluster.State
	out        io.Writer
	now        func() time.Time
	began      time.Time
	components map[string]*component
	client     kubernetes.Interface
	web        *http.Client
	down       chan struct{}
	whenReady  func()
}

// WhenReady sets what happens once the cluster can take Jobs.
func (v *Supervisor) WhenReady(f func()) { v.whenReady = f }

// New prepares a supervisor for a cluster that Prepare has laid out. bin is
// this program; it is run again for every component.
func New(l localcluster.Layout, s *localcluster.State, bin string, out io.Writer, now func() time.Time) (*Supervisor, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	v := &Supervisor{web: web, layout: l, state: s, out: out, now: now, began: now(), client: client, down: make(chan struct{}, 1), whenReady: func() {}}
	ready := map[string]func(context.Context) error{
		localcluster.Etcd:              v.etcdReady,
		localcluster.S3:                v.s3Ready,
		localcluster.APIServer:         v.apiServerReady,
		localcluster.ControllerManager: v.controllersReady,
		localcluster.Node:              v.nodeReady,
	}
	spawn := process.NewSpawner()
	v.components = map[string]*component{}
	for _, name := range localcluster.Components {
		v.components[name] = &component{
			name: name, bin: bin, args: []string{"component", name, "--data-dir", string(l)},
			log: l.LogFile(name), ready: ready[name], spawn: spawn,
		}
	}
	return v, nil
}

// Run starts everything, then serves the control socket until ctx ends or
// somebody asks for the end. All components have ended when it returns.
func (v *Supervisor) Run(ctx context.Context) (err error) {
	ln, err := localcluster.ListenControl(v.layout)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: v.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() { err = errors.Join(err, v.stopAll(), srv.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-v.down:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := v.startAll(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end while starting
		}
		return err
	}
	select {
	case <-ctx.Done():
		v.step("stopping")
		return nil
	case err := <-served:
		return fmt.Errorf("serve control socket: %w", err)
	}
}

func (v *Supervisor) step(format string, args ...any) {
	fmt.Fprintf(v.out, "[%5.1fs] %s\n", v.now().Sub(v.began).Seconds(), fmt.Sprintf(format, args...))
}

// startLimit bounds the start of one component, generous for a busy machine.
const startLimit = 4 * time.Minute

func (v *Supervisor) startAll(ctx context.Context) error {
	for _, group := range [][]string{
		{localcluster.Etcd, localcluster.S3},
		{localcluster.APIServer},
		{localcluster.ControllerManager, localcluster.Node},
	} {
		errs := make(chan error, len(group))
		for _, name := range group {
			go func() { errs <- v.start(ctx, name) }()
		}
		var failed error
		for range group {
			failed = errors.Join(failed, <-errs)
		}
		if failed != nil {
			return failed
		}
	}
	v.state.Ready = true
	if err := localcluster.SaveState(v.layout, v.state); err != nil {
		return err
	}
	v.step("ready")
	v.whenReady()
	return nil
}

func (v *Supervisor) start(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := v.components[name].start(ctx, v.now); err != nil {
		return err
	}
	v.step("%s ready", name)
	return nil
}

// stopAll ends components in the reverse order of their start, so that none
// loses what it depends on before it has ended itself.
func (v *Supervisor) stopAll() error {
	var err error
	for _, v0 := range slices.Backward(localcluster.Components) {
		c := v.components[v0]
		sig := syscall.SIGTERM
		if c.name == localcluster.ControllerManager || c.name == localcluster.APIServer {
			// These drain for seconds; nothing they hold is worth the wait,
			// since etcd has every write that was answered.
			sig = syscall.SIGKILL
		}
		err = errors.Join(err, c.end(sig))
	}
	v.state.Ready = false
	return errors.Join(err, localcluster.SaveState(v.layout, v.state))
}

func (v *Supervisor) etcdReady(ctx context.Context) error {
	return getOK(ctx, v.web, fmt.Sprintf("http://127.0.0.1:%d/health", v.state.Ports.Etcd))
}

func (v *Supervisor) s3Ready(ctx context.Context) error {
	return getOK(ctx, v.web, v.state.ObjectStore.URL()+objectstore.HealthPath)
}

func (v *Supervisor) apiServerReady(ctx context.Context) error {
	b, err := v.client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return err
	}
	if string(b) != "ok" {
		return fmt.Errorf("readyz says %q", b)
	}
	return nil
}

// controllersReady waits for what the controllers make first: pods cannot be
// created before their namespace has its default ServiceAccount and the CA
// that its pods mount.
func (v *Supervisor) controllersReady(ctx context.Context) error {
	if _, err := v.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err := v.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}

// nodeReady asks the agent as the API server will, for logs.
func (v *Supervisor) nodeReady(ctx context.Context) error {
	n, err := v.client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(n.Spec.Taints) > 0 {
		return fmt.Errorf("the node has taints: %v", n.Spec.Taints)
	}
	return getOK(ctx, v.web, fmt.Sprintf("https://127.0.0.1:%d/healthz", v.state.Ports.Node))
}

func getOK(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// WatchLifeline returns a context that ends when r does: the other end of the
// pipe belongs to whoever started the cluster.
func WatchLifeline(ctx context.Context, r *os.File) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// Whatever is read is dropped; an error ends the life as EOF does.
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}
