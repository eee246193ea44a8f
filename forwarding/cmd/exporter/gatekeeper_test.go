// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// buildExample builds the example as a program of somebody else is built: a module outside of the workspace that imports the client.
func buildExample(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "gatekeeper")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-mod=readonly", "-o", program, ".")
	cmd.Dir = filepath.Join("..", "..", "..", "examples", "gatekeeper")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, output)
	}
	return program
}

// TestClientModuleDependencies asks what the client brings along.
func TestClientModuleDependencies(t *testing.T) {
	output, err := exec.Command("go", "version", "-m", buildExample(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "dep" {
			continue
		}
		modules++
		for _, heavy := range []string{"k8s.io/", "sigs.k8s.io/", "cockroachdb/", "nats-io/", "franz-go", "prometheus/", "opentelemetry"} {
			if strings.Contains(fields[1], heavy) {
				t.Errorf("a program with the client links %s", fields[1])
			}
		}
	}
	if modules < 3 || modules > 14 {
		t.Errorf("a program with the client links %d modules:\n%s", modules, output)
	}
}

// TestGatekeeper runs the example: denials reach the far end, although far end and exporter were away.
func TestGatekeeper(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	r := p.start(t)
	cmd := exec.Command(buildExample(t), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "DECISION_EXPORT_URL=unix://"+p.socket)
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	review := func(pod, image string) (allowed bool, message string) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"kind":"Pod"},"namespace":"team-a","name":%q,
			"object":{"metadata":{"labels":{"owner":"a"}},"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, pod, pod, image)
		answer, err := http.Post("http://"+strings.TrimSpace(address), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var got struct {
			Response struct {
				UID     string
				Allowed bool
				Status  struct{ Message string }
			}
		}
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Response.UID != "u" {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Response.Allowed, got.Response.Status.Message
	}
	if allowed, message := review("good", "web:1"); !allowed || message != "" {
		t.Errorf("a pod that keeps the rules: %v, %q", allowed, message)
	}
	const n = 300
	for i := range n {
		if i == n/2 {
			r.kill(t)
		}
		if allowed, message := review(fmt.Sprint("pod", i), "web"); allowed || message != fmt.Sprintf("[no-latest] container pod%d must name a version of its image", i) {
			t.Fatalf("%v, %q", allowed, message)
		}
	}
	r = p.start(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the webhook ends with %v, %s", err, &says)
	}
	far.answer(http.StatusOK)
	r.waitFor(t, "all is delivered", isEmpty)
	far.mu.Lock()
	defer far.mu.Unlock()
	for i := range n {
		if far.got[fmt.Sprintf("container pod%d must name a version of its image", i)] == 0 {
			t.Errorf("the denial of pod %d is lost", i)
		}
	}
	if len(far.got) != n {
		t.Errorf("%d decisions came of %d", len(far.got), n)
	}
}
