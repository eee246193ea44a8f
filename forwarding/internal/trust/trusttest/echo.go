// SPDX-License-Identifier: Apache-2.0

package trusttest

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Sesame is a part of every secret of a test that looks for secrets where none must be.
const Sesame = "open-sesame"

// Traces are what a text has that repeats Sesame, as it is or in base64, wherever in the encoded text it stands.
func Traces(text string) (found []string) {
	forms := []string{Sesame}
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", shift) + Sesame))
		// The first characters hold what stands before, the last ones what stands behind.
		forms = append(forms, encoded[(shift*8+5)/6:len(encoded)-2])
	}
	for _, form := range forms {
		if i := strings.Index(text, form); i >= 0 {
			found = append(found, text[max(0, i-60):min(len(text), i+60)])
		}
	}
	return found
}

// Echo is a far end that refuses everybody, and tells them what they have sent.
type Echo struct {
	// Status is the answer to requests of HTTP; 0 is 401.
	Status int

	mutex sync.Mutex
	heard bool
}

// Repeats keeps in mind whether the words of a far end hold a secret, and gives them back.
func (e *Echo) Repeats(words string) string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.heard = e.heard || len(Traces(words)) > 0
	return words
}

// Heard tells whether the far end was sent a secret.
func (e *Echo) Heard() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.heard
}

// ServeHTTP answers with the request, as text and in the form of an error of S3.
func (e *Echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	words := e.Repeats(fmt.Sprintf("%s %s %s %v", r.Header.Get("Authorization"), user, password, r.Header))
	w.WriteHeader(cmp.Or(e.Status, http.StatusUnauthorized))
	_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>") // whoever is gone hears nothing
	_ = xml.EscapeText(w, []byte(words))
	_, _ = io.WriteString(w, "</Message></Error>")
}

// GRPC answers Unauthenticated with the metadata of each call, whatever the service.
func (e *Echo) GRPC(t testing.TB, options ...grpc.ServerOption) (address string) {
	t.Helper()
	listener := listen(t)
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		sent, _ := metadata.FromIncomingContext(stream.Context())
		return status.Error(codes.Unauthenticated, e.Repeats(fmt.Sprint("no such caller: ", sent["authorization"], sent)))
	}))...)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// NATS answers who connects with an error that has all they have said. Config is for its TLS.
func (e *Echo) NATS(t testing.TB, config *tls.Config) (address string) {
	t.Helper()
	listener := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			serving.Go(func() {
				if err := e.nats(conn, config); err != nil && !errors.Is(err, io.EOF) && t.Context().Err() == nil {
					t.Log(err)
				}
				_ = conn.Close() // the client has its answer
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

func (e *Echo) nats(conn net.Conn, config *tls.Config) error {
	const greeting = `INFO {"server_id":"echo","version":"2.10.0","tls_required":true,"auth_required":true,"max_payload":1048576}`
	if _, err := io.WriteString(conn, greeting+"\r\n"); err != nil {
		return err
	}
	secure := tls.Server(conn, config)
	line, err := bufio.NewReader(secure).ReadString('\n')
	if err != nil {
		return err
	}
	_, err = io.WriteString(secure, "-ERR 'Authorization Violation: "+strings.ReplaceAll(e.Repeats(strings.TrimSpace(line)), "'", "")+"'\r\n")
	return err
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
