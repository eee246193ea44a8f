// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

// tally turns single probe results into a verdict by the probe's thresholds.
type tally struct {
	success, failure int
	wins, losses     int
}

// add counts a result; decided tells whether a threshold was reached.
func (t *tally) add(ok bool) (healthy, decided bool) {
	if ok {
		t.wins, t.losses = t.wins+1, 0
		return true, t.wins >= max(t.success, 1)
	}
	t.wins, t.losses = 0, t.losses+1
	return false, t.losses >= max(t.failure, 1)
}

// probe watches a running container until alive ends: readiness decides its
// Ready, a failed liveness or startup probe ends it by calling unhealthy.
func (r *runner) probe(ctx, alive context.Context, unhealthy func(), pid int, spec *sandbox.Spec) {
	fail := func(kind string) func(bool, string) {
		return func(ok bool, why string) {
			if ok {
				return
			}
			r.w.a.event(ctx, r.w.pod, corev1.EventTypeWarning, "Unhealthy", kind+" probe failed: "+why)
			unhealthy()
		}
	}
	if p := r.c.StartupProbe; p != nil {
		up, cancel := context.WithCancel(alive)
		r.probeLoop(up, p, pid, spec, func(ok bool, why string) {
			fail("Startup")(ok, why)
			if ok {
				yes := true
				r.w.update(r.c.Name, func(s *corev1.ContainerStatus) { s.Started, s.Ready = &yes, r.c.ReadinessProbe == nil })
				r.startOnce.Do(func() { close(r.started) })
			}
			cancel()
		})
		cancel()
	}
	var both sync.WaitGroup
	if p := r.c.LivenessProbe; p != nil {
		both.Go(func() { r.probeLoop(alive, p, pid, spec, fail("Liveness")) })
	}
	if p := r.c.ReadinessProbe; p != nil {
		both.Go(func() {
			r.probeLoop(alive, p, pid, spec, func(ok bool, why string) {
				if r.w.status(r.c.Name).Ready == ok {
					return
				}
				if !ok {
					r.w.a.event(ctx, r.w.pod, corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+why)
				}
				r.w.update(r.c.Name, func(s *corev1.ContainerStatus) { s.Ready = ok && s.State.Running != nil })
			})
		})
	}
	both.Wait()
}

func (r *runner) probeLoop(ctx context.Context, p *corev1.Probe, pid int, spec *sandbox.Spec, verdict func(bool, string)) {
	if !sleep(ctx, time.Duration(p.InitialDelaySeconds)*time.Second) {
		return
	}
	t := tally{success: int(p.SuccessThreshold), failure: int(p.FailureThreshold)}
	for {
		limited, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
		err := r.probeOnce(limited, p, pid, spec)
		cancel()
		if ctx.Err() != nil {
			return
		}
		why := ""
		if err != nil {
			why = err.Error()
		}
		if healthy, decided := t.add(err == nil); decided {
			verdict(healthy, why)
		}
		if !sleep(ctx, time.Duration(max(p.PeriodSeconds, 1))*time.Second) {
			return
		}
	}
}

func (r *runner) probeOnce(ctx context.Context, p *corev1.Probe, pid int, spec *sandbox.Spec) error {
	switch {
	case p.HTTPGet != nil:
		return r.probeHTTP(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		port, err := portNumber(p.TCPSocket.Port, r.c)
		if err != nil {
			return err
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(firstWord(p.TCPSocket.Host, r.w.a.podIP), port))
		if err != nil {
			return err
		}
		return conn.Close()
	case p.Exec != nil:
		return r.probeExec(ctx, p.Exec.Command, pid, spec)
	}
	return errors.New("this kind of probe is not supported by the local node")
}

func (r *runner) probeHTTP(ctx context.Context, g *corev1.HTTPGetAction) error {
	port, err := portNumber(g.Port, r.c)
	if err != nil {
		return err
	}
	u := url.URL{Scheme: strings.ToLower(string(g.Scheme)), Host: net.JoinHostPort(firstWord(g.Host, r.w.a.podIP), port)}
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if u.Path, u.RawQuery, _ = strings.Cut(g.Path, "?"); !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	for _, h := range g.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return nil
}

// portNumber resolves a named port of the container.
func portNumber(p intstr.IntOrString, c *corev1.Container) (string, error) {
	if p.Type == intstr.Int {
		return p.String(), nil
	}
	for _, named := range c.Ports {
		if named.Name == p.StrVal {
			return fmt.Sprint(named.ContainerPort), nil
		}
	}
	return "", fmt.Errorf("container %s has no port named %q", c.Name, p.StrVal)
}

// probeExec runs a command inside the container.
func (r *runner) probeExec(ctx context.Context, command []string, pid int, spec *sandbox.Spec) error {
	join := *spec
	join.Join, join.Args = pid, command
	cmd, handOver, err := sandbox.Command(&join)
	if err != nil {
		return err
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &limitedWriter{&said, 1 << 10}, io.Discard
	if err := r.w.a.spawn.Start(cmd); err != nil {
		return errors.Join(err, handOver())
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err = handOver()
	waitErr := cmd.Wait()
	var exit *exec.ExitError
	if err == nil && errors.As(waitErr, &exit) {
		return fmt.Errorf("command ended with %d: %s", exit.ExitCode(), strings.TrimSpace(said.String()))
	}
	return errors.Join(err, waitErr)
}
