// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// storageHealth answers 200 once the S3 server takes requests.
const storageHealth = "/healthz-localcluster"

// StartStorage runs the local cluster's S3 server by itself until the test ends, for tests that need no API server.
func StartStorage(t *testing.T) Storage {
	t.Helper()
	s, err := startStorage(t)
	if err != nil {
		t.Fatalf("start the S3 server: %v", err)
	}
	return s
}

func startStorage(t *testing.T) (Storage, error) {
	t.Helper()
	s := Storage{Bucket: "bucket", Region: region, AccessKey: "an-access-key", SecretKey: "a-secret-key"}
	binary, err := findBinary()
	if err != nil {
		return s, err
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	s.Endpoint = listener.Addr().String()
	if err := listener.Close(); err != nil {
		return s, err
	}
	state, err := json.Marshal(map[string]any{"version": 1, "objectStore": map[string]string{
		"endpoint": s.Endpoint, "region": s.Region, "bucket": s.Bucket, "accessKey": s.AccessKey, "secretKey": s.SecretKey,
	}})
	if err != nil {
		return s, err
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), state, 0o600); err != nil {
		return s, err
	}
	var said bytes.Buffer
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, binary, "component", "s3", "--data-dir", dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		stop()
		return s, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed at the end of the test
	}()
	t.Cleanup(func() { stop(); <-ended })
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("it ended: %s", said.String())
		default:
		}
		return answers(ctx, "http://"+s.Endpoint+storageHealth), nil
	})
	return s, err
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // nothing of it is read
	return resp.StatusCode == http.StatusOK
}
