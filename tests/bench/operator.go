// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// operator is the program under measurement.
type operator struct {
	cmd     *exec.Cmd
	metrics string
	profile string // the address below which profiles are
	log     *os.File
}

func startOperator(ctx context.Context, o Options, cluster *localcluster.Cluster) (*operator, error) {
	free, err := ports.Free(3)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp("", "scanyard-bench-operator-*.log")
	if err != nil {
		return nil, err
	}
	address := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	args := []string{"--kubeconfig=" + cluster.Kubeconfig, "--metrics-bind-address=" + address(free[0]), "--health-probe-bind-address=" + address(free[1])}
	if o.Peer == "" {
		args = append(args, "--pprof-bind-address="+address(free[2]),
			"--workers="+strconv.Itoa(o.Workers), "--kube-api-qps="+strconv.Itoa(o.QPS), "--kube-api-burst="+strconv.Itoa(2*o.QPS))
	}
	cmd := exec.CommandContext(ctx, cmp.Or(o.Peer, filepath.Join(o.Bin, "operator")), args...)
	cmd.Env = append(os.Environ(), storageEnv(cluster.ObjectStore)...)
	// What the peer asks for, and ours has defaults of. Its pods are simulated, so nobody looks for the image.
	cmd.Env = append(cmd.Env, "LURKER_IMAGE=docker.io/scanyard/lurker:bench", "LURKER_PULL_POLICY=IfNotPresent", "TELEMETRY_ENABLED=false")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	op := &operator{cmd: cmd, metrics: "http://" + address(free[0]) + "/metrics", profile: "http://" + address(free[2]) + "/debug/pprof/", log: log}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyWithin, true, func(ctx context.Context) (bool, error) {
		return get(ctx, "http://"+address(free[1])+"/readyz", func(*bufio.Scanner) {}) == nil, nil
	})
	if err != nil {
		_ = op.cmd.Process.Kill() // it may have ended
		_ = op.cmd.Wait()
		return nil, errors.Join(fmt.Errorf("the operator is not ready; its log is %s: %w", log.Name(), err), log.Close())
	}
	return op, nil
}

// readyWithin bounds the start of an operator, only to end a run that is broken: with 100,000 Scans its caches take a while.
const readyWithin = 5 * time.Minute

// storageEnv says where object storage is.
func storageEnv(s localcluster.ObjectStore) []string {
	env := []string{
		"S3_USE_SSL=false", "S3_BUCKET=" + s.Bucket, "S3_REGION=" + s.Region, "S3_PATH_STYLE=true",
		"MINIO_ACCESS_KEY=" + s.AccessKey, "MINIO_SECRET_KEY=" + s.SecretKey,
	}
	host, port, found := strings.Cut(s.Endpoint, ":")
	if !found {
		return append(env, "S3_ENDPOINT="+s.Endpoint)
	}
	return append(env, "S3_ENDPOINT="+host, "S3_PORT="+port)
}

// stop ends the operator and removes its log.
func (op *operator) stop() {
	_ = op.cmd.Process.Kill() // it may have ended
	op.stopped()
}

// end ends the operator as a rollout does: it gives its lease up.
func (op *operator) end() error {
	if err := op.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the operator: %w", err)
	}
	op.stopped()
	return nil
}

// stopped waits until the operator has ended, and removes its log.
func (op *operator) stopped() {
	_ = op.cmd.Wait() // how it ended does not matter
	_ = op.log.Close()
	_ = os.Remove(op.log.Name())
}

// writeProfile writes the operator's heap profile.
func (op *operator) writeProfile(ctx context.Context, file string) error {
	return op.fetchProfile(ctx, "heap", file)
}

func (op *operator) fetchProfile(ctx context.Context, which, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = fetch(ctx, op.profile+which, func(body io.Reader) error {
		_, err := io.Copy(f, body)
		return err
	})
	return errors.Join(err, f.Close())
}

// profiledFor is how many seconds a CPU profile covers.
const profiledFor = 30

// profileCPU begins to write a CPU profile and returns what waits for its end. Without a file nothing is written.
func (op *operator) profileCPU(ctx context.Context, file string) (wait func() error) {
	if file == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- op.fetchProfile(ctx, fmt.Sprintf("profile?seconds=%d", profiledFor), file) }()
	return func() error { return <-done }
}

// profileAPIServer is the same for kube-apiserver.
func (b *run) profileAPIServer(ctx context.Context, file string) (wait func() error) {
	if file == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		raw, err := b.api.Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(profiledFor)).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		done <- err
	}()
	return func() error { return <-done }
}

// reading is what the operator, and the API server for it, have used so far.
type reading struct {
	// reads are GETs past the cache, lists and the begin of watches.
	writes, reads float64
	// pods are those that were made.
	pods        float64
	cpu, apiCPU time.Duration
	rss, peak   int64
}

func (op *operator) read(ctx context.Context) (reading, error) {
	var r reading
	err := fetch(ctx, op.metrics, func(body io.Reader) error {
		all, err := series(body, "rest_client_requests_total")
		for labels, n := range all {
			if strings.Contains(labels, `method="GET"`) {
				r.reads += n
			} else {
				r.writes += n
			}
		}
		return err
	})
	if err != nil {
		return r, err
	}
	return r, op.readProc(&r)
}

// read is what was used so far.
func (b *run) read(ctx context.Context) (reading, error) {
	r, err := b.operator.read(ctx)
	if err != nil {
		return r, err
	}
	if r.pods, err = b.pods(ctx); err != nil {
		return r, err
	}
	parts, err := b.cluster.Status(ctx)
	if err != nil {
		return r, err
	}
	for i := range parts {
		if parts[i].Name == localcluster.APIServer {
			u, err := usage.Of(parts[i].PID)
			r.apiCPU = u.CPU
			return r, err
		}
	}
	return r, errors.New("the cluster has no API server")
}

// pods is how many pods the API server has made.
func (b *run) pods(ctx context.Context) (float64, error) {
	text, err := b.api.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	all, err := series(bytes.NewReader(text), "apiserver_request_total")
	sum := 0.0
	for labels, n := range all {
		if podCreated(labels) {
			sum += n
		}
	}
	return sum, err
}

// podCreated holds for the labels of requests that have made pods.
func podCreated(labels string) bool {
	for _, want := range []string{`resource="pods"`, `subresource=""`, `verb="POST"`, `code="201"`} {
		if !strings.Contains(labels, want) {
			return false
		}
	}
	return true
}

// series are the values of a metric, by the text of its labels, in the text format of Prometheus.
func series(in io.Reader, metric string) (map[string]float64, error) {
	all := map[string]float64{}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		rest, ok := strings.CutPrefix(s.Text(), metric+"{")
		if !ok {
			continue
		}
		at := strings.LastIndex(rest, "} ")
		if at < 0 {
			return nil, fmt.Errorf("metric %s: %q is not a sample", metric, s.Text())
		}
		n, err := strconv.ParseFloat(rest[at+2:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", metric, err)
		}
		all[rest[:at]] = n
	}
	return all, s.Err()
}

// readProc reads CPU time and memory.
func (op *operator) readProc(r *reading) error {
	u, err := usage.Of(op.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("the operator has ended; its log is %s: %w", op.log.Name(), err)
	}
	r.cpu, r.rss, r.peak = u.CPU, u.Resident, u.Peak
	return nil
}

func get(ctx context.Context, url string, read func(*bufio.Scanner)) error {
	return fetch(ctx, url, func(body io.Reader) error {
		s := bufio.NewScanner(body)
		read(s)
		return s.Err()
	})
}

func fetch(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return read(resp.Body)
}

func readObject(file string) (*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &u.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return u, nil
}
