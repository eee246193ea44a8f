// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/command"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// written is what a program has said so far.
type written struct {
	sync.Mutex
	text bytes.Buffer
}

// Write keeps the text.
func (w *written) Write(text []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	return w.text.Write(text)
}

func (w *written) String() string {
	w.Lock()
	defer w.Unlock()
	return w.text.String()
}

// TestSecretsAreNowhere has senders and readers with right tokens, with wrong ones, and lines of tokens that are mistaken. No token and no key is in
// what the receiver says, in its log, its metrics or its store.
func TestSecretsAreNowhere(t *testing.T) {
	directory, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	authority := trusttest.NewAuthority(t, "receiver")
	pair := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	right, wrong, reader := trusttest.Sesame+"-right", trusttest.Sesame+"-wrong", trusttest.Sesame+"-reader"
	tokens := trusttest.Write(t, directory, "tokens", []byte(right+",tenant=team-a\n"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	log := &written{}
	root := command.New(write, log)
	root.SetArgs([]string{
		"run", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--store", store, "--print-address", "--tokens", tokens,
		"--read-tokens", trusttest.Write(t, directory, "readers", []byte(reader+"\n")),
		"--tls-cert", trusttest.Write(t, directory, "cert", pair.Certificate), "--tls-key", trusttest.Write(t, directory, "key", pair.Key),
	})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err, log)
	}
	var address struct{ GRPC, HTTP string }
	if err := json.Unmarshal([]byte(line), &address); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	conn, err := grpc.NewClient(address.GRPC, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id, answers := receivertest.Scan("u"), []string{line}
	send := func(token string) error {
		answer, err := forwardingv1.NewForwardingServiceClient(conn).ForwardBatch(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token),
			&forwardingv1.ForwardBatchRequest{Hello: &forwardingv1.Hello{ApiVersion: "v1"}, Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: receivertest.Records(id, 2)}})
		answers = append(answers, answer.String(), status.Convert(err).String())
		return err
	}
	if err := send(right); err != nil {
		t.Fatal(err)
	}
	if err := send(wrong); status.Code(err) != codes.Unauthenticated {
		t.Fatal(err)
	}
	for _, line := range []string{right + "," + wrong, right + "," + wrong + "=", right + ",tenant=team-a," + wrong + "==", right + " " + wrong + "," + wrong} {
		trusttest.Write(t, directory, "tokens", []byte(line+"\n"))
		_, err := call(t, "run", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--throw-away", "--tokens", tokens)
		if command.ExitCode(err) != 2 || !strings.Contains(err.Error(), "line 1: ") {
			t.Errorf("%s: %v", line, err)
		} else {
			answers = append(answers, err.Error())
		}
	}
	for !strings.Contains(log.String(), "tokens cannot be read") { // they are read again every second
		if err := send(right); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{reader, wrong} {
		for _, path := range []string{"/metrics", "/v1/records", "/v1/streams", "/v1/counters", "/readyz"} {
			answers = append(answers, get(t, "http://"+address.HTTP+path, token))
		}
	}
	said := strings.Join(answers, "\n")
	if !strings.Contains(said, id.GetUid()) || !strings.Contains(said, "scanyard_receiver_records_total") {
		t.Errorf("the receiver tells nothing: %s", said)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	kept := filesOf(t, store)
	for where, text := range map[string]string{"its answers": said, "its log": log.String(), "its store": kept} {
		secret := strings.TrimSpace(strings.Split(string(pair.Key), "\n")[1])
		if traces := trusttest.Traces(text); len(traces) > 0 || strings.Contains(text, secret) {
			t.Errorf("a secret of the receiver is in %s: %q", where, traces)
		}
	}
}

// get gives what the door answers to who has a token.
func get(t *testing.T, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status + string(body)
}

// filesOf is all that is in the files of a folder, and what the commands read there.
func filesOf(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	for _, command := range [][]string{{"records"}, {"streams", "--output", "json"}, {"verify"}} {
		text, err := call(t, append(command, "--store", folder)...)
		if err != nil {
			t.Error(err)
		}
		all.WriteString(text)
	}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all.String()
}
