// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
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
)

// operator is the program under measurement.
type operator struct {
	cmd     *exec.Cmd
	metrics string
	profile string
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
	s := cluster.ObjectStore
	cmd := exec.CommandContext(ctx, filepath.Join(o.Bin, "operator"), "--kubeconfig="+cluster.Kubeconfig,
		"--metrics-bind-address="+address(free[0]), "--health-probe-bind-address="+address(free[1]), "--pprof-bind-address="+address(free[2]),
		"--workers="+strconv.Itoa(o.Workers), "--kube-api-qps="+strconv.Itoa(o.QPS), "--kube-api-burst="+strconv.Itoa(2*o.QPS))
	cmd.Env = append(os.Environ(), "S3_ENDPOINT="+s.Endpoint, "S3_USE_SSL=false", "S3_BUCKET="+s.Bucket, "S3_REGION="+s.Region,
		"S3_PATH_STYLE=true", "MINIO_ACCESS_KEY="+s.AccessKey, "MINIO_SECRET_KEY="+s.SecretKey)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	op := &operator{cmd: cmd, metrics: "http://" + address(free[0]) + "/metrics", profile: "http://" + address(free[2]) + "/debug/pprof/heap", log: log}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return get(ctx, "http://"+address(free[1])+"/readyz", func(*bufio.Scanner) {}) == nil, nil
	})
	if err != nil {
		op.stop()
		return nil, fmt.Errorf("the operator is not ready; its log is %s: %w", log.Name(), err)
	}
	return op, nil
}

// stop ends the operator and removes its log.
func (op *operator) stop() {
	_ = op.cmd.Process.Kill() // it may have ended
	_ = op.cmd.Wait()
	_ = op.log.Close()
	_ = os.Remove(op.log.Name())
}

// writeProfile writes the operator's heap profile.
func (op *operator) writeProfile(ctx context.Context, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = fetch(ctx, op.profile, func(body io.Reader) error {
		_, err := io.Copy(f, body)
		return err
	})
	return errors.Join(err, f.Close())
}

// reading is what the operator has used so far.
type reading struct {
	writes    float64
	cpu       time.Duration
	rss, peak int64
}

func (op *operator) read(ctx context.Context) (reading, error) {
	var r reading
	err := get(ctx, op.metrics, func(s *bufio.Scanner) {
		for s.Scan() {
			if strings.HasPrefix(s.Text(), "rest_client_requests_total{") && !strings.Contains(s.Text(), `method="GET"`) {
				fields := strings.Fields(s.Text())
				n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
				if err == nil {
					r.writes += n
				}
			}
		}
	})
	if err != nil {
		return r, err
	}
	return r, op.readProc(&r)
}

// clockTicks is how many ticks of /proc/PID/stat make a second on Linux.
const clockTicks = 100

// readProc reads CPU time and memory.
func (op *operator) readProc(r *reading) error {
	u, err := processOf(op.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("the operator has ended; its log is %s: %w", op.log.Name(), err)
	}
	r.cpu, r.rss, r.peak = u.cpu, u.rss, u.peak
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
