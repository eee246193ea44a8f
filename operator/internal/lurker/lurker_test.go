// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// quick is a clock whose pauses are over at once.
func quick() retry.Clock {
	return retry.Clock{Now: time.Now, Sleep: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }}
}

// store is an HTTP server that takes PUTs as S3 does.
type storeServer struct {
	*httptest.Server

	body   string
	puts   atomic.Int32
	answer func(n int32) (int, string)
}

func newStore(t *testing.T) *storeServer {
	t.Helper()
	s := &storeServer{answer: func(int32) (int, string) { return http.StatusOK, "" }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.puts.Add(1)
		b, _ := io.ReadAll(r.Body)
		code, body := s.answer(n)
		if code == http.StatusOK {
			s.body = string(b)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

const expired = `<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`

// world is a pod with a lurker.
type world struct {
	lurker *Lurker
	api    *fake.Clientset
	store  *storeServer
	file   string
}

func newWorld(t *testing.T, p *corev1.Pod) *world {
	t.Helper()
	p.Namespace = "ns"
	api := fake.NewClientset(p)
	store := newStore(t)
	file := filepath.Join(t.TempDir(), "result.xml")
	client, err := transfer.New(transfer.WithBackoff(time.Millisecond, time.Millisecond), transfer.WithPatience(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return &world{api: api, store: store, file: file, lurker: &Lurker{
		Pods: api.CoreV1().Pods("ns"), Pod: "p", Container: "nmap", File: file, URL: transfer.URL(store.URL + "/raw?X-Amz-Signature=secret"),
		Clock: quick(), Log: slog.New(slog.DiscardHandler),
		Upload: func(ctx context.Context, to transfer.URL, size int64, open func() (io.ReadCloser, error)) error {
			return client.Upload(ctx, to, size, open, http.Header{})
		},
	}}
}

func (w *world) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(w.file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUploadsWhenTheScannerHasEnded(t *testing.T) {
	for name, content := range map[string]string{"Result": "<nmaprun/>", "Empty": ""} {
		t.Run(name, func(t *testing.T) {
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			w := newWorld(t, pod(corev1.RestartPolicyNever, running, 0))
			watching := make(chan struct{})
			w.api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
				close(watching)
				return false, nil, nil
			})
			done := make(chan error, 1)
			go func() { done <- w.lurker.Run(t.Context()) }()
			<-watching
			w.write(t, content)
			end := pod(corev1.RestartPolicyNever, ended(0, "Completed"), 0)
			end.Namespace = "ns"
			if _, err := w.api.CoreV1().Pods("ns").UpdateStatus(t.Context(), end, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if w.store.body != content || w.store.puts.Load() != 1 {
				t.Errorf("stored %q by %d PUTs, want %q by one", w.store.body, w.store.puts.Load(), content)
			}
		})
	}
}

// TestDefect60AnExpiredURLIsReplaced by a fresh one from the operator.
func TestDefect60AnExpiredURLIsReplaced(t *testing.T) {
	w := newWorld(t, pod(corev1.RestartPolicyNever, ended(0, ""), 0))
	w.write(t, "late")
	w.store.answer = func(n int32) (int, string) {
		if n == 1 {
			return http.StatusForbidden, expired
		}
		return http.StatusOK, ""
	}
	asked := 0
	w.lurker.Fresh = func(context.Context) (transfer.URL, error) {
		asked++
		return transfer.URL(w.store.URL + "/raw?X-Amz-Signature=fresh"), nil
	}
	if err := w.lurker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked != 1 || w.store.body != "late" {
		t.Errorf("asked %d times, stored %q", asked, w.store.body)
	}
}

func TestDefect60WithoutAnEndpointTheRemedyIsNamed(t *testing.T) {
	w := newWorld(t, pod(corev1.RestartPolicyNever, ended(0, ""), 0))
	w.write(t, "late")
	w.store.answer = func(int32) (int, string) { return http.StatusForbidden, expired }
	err := w.lurker.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "URL_EXPIRATION_SCAN") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want the setting to raise and no signature", err)
	}
}

// TestDefect61NothingOfAFailedAttemptIsUploaded, whatever it has left.
func TestDefect61NothingOfAFailedAttemptIsUploaded(t *testing.T) {
	cases := map[string]struct {
		pod   *corev1.Pod
		write bool
		old   bool
		want  string
	}{
		"FailedForGood": {pod(corev1.RestartPolicyNever, ended(1, "Error"), 0), true, false, "may be incomplete"},
		"Stale":         {pod(corev1.RestartPolicyOnFailure, ended(0, ""), 1), true, true, "earlier attempt"},
		"NoFile":        {pod(corev1.RestartPolicyNever, ended(0, ""), 0), false, false, "extractResults.location"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.pod)
			if tc.write {
				w.write(t, "half")
			}
			if tc.old {
				long := time.Unix(500, 0)
				if err := os.Chtimes(w.file, long, long); err != nil {
					t.Fatal(err)
				}
			}
			err := w.lurker.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if w.store.puts.Load() != 0 {
				t.Error("something was uploaded")
			}
		})
	}
}

func TestHostileFilesAreNotFollowed(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(file string) error{
		"LinkOut":   func(file string) error { return os.Symlink(secret, file) },
		"Directory": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pod(corev1.RestartPolicyNever, ended(0, ""), 0))
			if err := plant(w.file); err != nil {
				t.Fatal(err)
			}
			if err := w.lurker.Run(t.Context()); err == nil || w.store.puts.Load() != 0 {
				t.Errorf("error %v, %d PUTs; want an error and none", err, w.store.puts.Load())
			}
		})
	}
}

// TestDefect63OutagesAreWaitedOut: the API server and the storage may both be away.
func TestDefect63OutagesAreWaitedOut(t *testing.T) {
	w := newWorld(t, pod(corev1.RestartPolicyNever, ended(0, ""), 0))
	w.write(t, "x")
	failures := 0
	w.api.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures++; failures < 5 {
			return true, nil, fmt.Errorf("dial tcp: connection refused")
		}
		return false, nil, nil
	})
	w.store.answer = func(n int32) (int, string) {
		if n < 3 {
			return http.StatusServiceUnavailable, ""
		}
		return http.StatusOK, ""
	}
	if err := w.lurker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if failures < 5 || w.store.body != "x" {
		t.Errorf("%d reads, stored %q", failures, w.store.body)
	}
}

// TestDefect62ARefusalDoesNotLastForEver, and names what is wrong.
func TestDefect62ARefusalDoesNotLastForEver(t *testing.T) {
	w := newWorld(t, pod(corev1.RestartPolicyNever, ended(0, ""), 0))
	w.lurker.Pod = "hostname-of-the-node"
	// The clock goes on by ten seconds each time that it is asked.
	past := time.Unix(0, 0)
	w.lurker.Clock.Now = func() time.Time {
		past = past.Add(10 * time.Second)
		return past
	}
	err := w.lurker.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "POD_NAME") {
		t.Errorf("error %v, want one that names POD_NAME", err)
	}
}

// TestDefect63FallsBackToAsking where a foreign operator's Role does not let it watch.
func TestDefect63FallsBackToAsking(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	w := newWorld(t, pod(corev1.RestartPolicyNever, running, 0))
	w.write(t, "x")
	w.api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil)
	})
	reads := 0
	w.api.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads < 4 {
			return false, nil, nil
		}
		return true, pod(corev1.RestartPolicyNever, ended(0, ""), 0), nil
	})
	if err := w.lurker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.store.body != "x" {
		t.Errorf("stored %q", w.store.body)
	}
}

func TestFreshURL(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("bound\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer bound":
			http.Error(w, "who?", http.StatusUnauthorized)
		case n.Add(1) < 3:
			http.Error(w, "not now", http.StatusServiceUnavailable)
		case r.URL.Path == "/refused":
			http.Error(w, "the Scan is over", http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, `{"url":"https://s3/raw?sig=1"}`)
		}
	}))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	e := Endpoint{URL: s.URL, CA: string(ca), TokenFile: token, Clock: quick(), Log: slog.New(slog.DiscardHandler)}
	u, err := e.Fresh(t.Context())
	if err != nil || string(u) != "https://s3/raw?sig=1" || n.Load() != 3 {
		t.Errorf("URL %q after %d requests, error %v", string(u), n.Load(), err)
	}
	e.URL = s.URL + "/refused"
	if _, err := e.Fresh(t.Context()); err == nil || !strings.Contains(err.Error(), "the Scan is over") {
		t.Errorf("error %v, want the operator's own words", err)
	}
}
