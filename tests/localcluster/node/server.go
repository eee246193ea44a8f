// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// serve answers the API server's requests for logs. Only clients with a
// certificate of the cluster's CA are heard.
func (a *Agent) serve(ctx context.Context) (int32, <-chan error, error) {
	cert, err := tls.LoadX509KeyPair(a.o.ServerCert, a.o.ServerKey)
	if err != nil {
		return 0, nil, fmt.Errorf("load node certificate: %w", err)
	}
	pem, err := os.ReadFile(a.o.ClientCA)
	if err != nil {
		return 0, nil, fmt.Errorf("load client CA: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	var lc net.ListenConfig
	raw, err := lc.Listen(ctx, "tcp", a.o.Listen)
	if err != nil {
		return 0, nil, fmt.Errorf("listen for log requests: %w", err)
	}
	ln := tls.NewListener(raw, &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", a.serveLog)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok")) // a caller that has gone needs no answer
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	go func() {
		<-ctx.Done()
		_ = srv.Close() // the process ends
	}()
	addr, ok := raw.Addr().(*net.TCPAddr)
	if !ok {
		return 0, nil, fmt.Errorf("listen for log requests: %v is not a TCP address", raw.Addr())
	}
	return int32(addr.Port), failed, nil
}

func (a *Agent) serveLog(w http.ResponseWriter, r *http.Request) {
	o, err := parseLogOptions(r.URL.Query(), a.o.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	container := r.PathValue("container")
	path, err := a.findLog(r.PathValue("namespace"), r.PathValue("pod"), container, o.previous)
	if err != nil {
		http.Error(w, a.whyNoLog(r.PathValue("namespace"), r.PathValue("pod"), container, o.previous), http.StatusBadRequest)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	ended := func() bool {
		_, err := os.Stat(path + doneSuffix)
		return err == nil
	}
	if err := copyLog(r.Context(), w, f, o, ended); err != nil && !errors.Is(err, errLimit) && r.Context().Err() == nil {
		a.o.Log.Warn("serve log", "path", path, "error", err)
	}
}

// whyNoLog explains a missing log in a kubelet's words.
func (a *Agent) whyNoLog(namespace, pod, container string, previous bool) string {
	if previous {
		return fmt.Sprintf("previous terminated container %q in pod %q not found", container, pod)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		if w.pod.Namespace != namespace || w.pod.Name != pod {
			continue
		}
		if s := w.status(container); s.State.Waiting != nil {
			return fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, pod, s.State.Waiting.Reason)
		}
	}
	return fmt.Sprintf("container %q in pod %q is not available", container, pod)
}

// allocatable is what downward API limits fall back to.
func (a *Agent) allocatable() corev1.ResourceList {
	memory, err := totalMemory()
	if err != nil {
		memory = 0
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}
