// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/command"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := command.New(&out, io.Discard)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestWrongFlags(t *testing.T) {
	for args, text := range map[string]string{
		"run":                                    "--store is missing",
		"run --store d --tls-cert f":             "--tls-cert and --tls-key belong together",
		"run --store d --client-ca f":            "--client-ca needs TLS",
		"run --store d --listen 0.0.0.0:0":       "--listen 0.0.0.0:0 would take findings in plain text",
		"run --store d --listen x":               "--listen",
		"run --store d --http-listen x":          "--http-listen",
		"run --store d --max-record-bytes 2MB":   "--max-record-bytes",
		"run --store d --max-record-bytes 0":     "--max-record-bytes must be",
		"run --store d --tokens missing":         "--tokens",
		"run --store d --tls-cert f --tls-key f": "--tls-cert",
		"run --store d extra":                    `"extra" is too much`,
		"run --store d --reports-rules missing":  "--reports-rules",
		"run --throw-away --reports-rules f":     "--reports-rules needs a store",
		"run --store d --reports-interval 0s":    "--reports-interval must be longer",
		"run --bogus":                            "bogus",
		"bogus":                                  `"bogus" is not known`,
		"streams":                                "--store is missing",
	} {
		_, err := call(t, strings.Fields(args)...)
		if command.ExitCode(err) != 2 || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got exit code %d, %v; want 2, %q", args, command.ExitCode(err), err, text)
		}
	}
	if _, err := os.Stat("d"); !os.IsNotExist(err) {
		t.Error("a wrong command line made a store")
	}
}

func TestRun(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	root := command.New(write, io.Discard)
	root.SetArgs([]string{"run", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--store", directory, "--print-address", "--insecure", "--max-record-bytes", "1KiB"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var address struct {
		Program, GRPC, HTTP string
		PID                 int
	}
	if err := json.Unmarshal(line, &address); err != nil || address.Program != "receiver" || address.PID != os.Getpid() {
		t.Fatalf("got %s, %v", line, err)
	}
	conn, err := grpc.NewClient(address.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id := receivertest.Scan("u")
	answer, err := forwardingv1.NewForwardingServiceClient(conn).ForwardBatch(t.Context(), &forwardingv1.ForwardBatchRequest{
		Hello: &forwardingv1.Hello{ApiVersion: "v1"}, Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: receivertest.Records(id, 2)},
	})
	if err != nil || answer.GetAck().GetStored() != 4 {
		t.Fatalf("got %v, %v", answer, err)
	}
	online, err := http.Get("http://" + address.HTTP + "/v1/records")
	if err != nil {
		t.Fatal(err)
	}
	defer online.Body.Close()
	records, err := io.ReadAll(online.Body)
	if err != nil || bytes.Count(records, []byte("\n")) != 4 {
		t.Errorf("got %s, %v", records, err)
	}
	if _, err := call(t, "streams", "--store", directory); command.ExitCode(err) != 3 || !strings.Contains(err.Error(), "in use by pid") {
		t.Errorf("a store in use: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if offline, err := call(t, "records", "--store", directory); err != nil || offline != string(records) {
		t.Errorf("offline the records are others: %v\n%s\n%s", err, offline, records)
	}
	if streams, err := call(t, "streams", "--store", directory, "--output", "json"); err != nil || !strings.Contains(streams, `"completeness":"COMPLETE"`) {
		t.Errorf("got %s, %v", streams, err)
	}
	if streams, err := call(t, "streams", "--store", directory); err != nil || !strings.Contains(streams, "COMPLETE") {
		t.Errorf("got %s, %v", streams, err)
	}
	if verified, err := call(t, "verify", "--store", directory); err != nil || !strings.Contains(verified, `"records":4,"streams":1,"conflicts":0,"wrong":[]`) {
		t.Errorf("got %s, %v", verified, err)
	}
	if err := os.WriteFile(filepath.Join(directory, "FORMAT"), []byte(`{"format":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, "verify", "--store", directory); command.ExitCode(err) != 4 {
		t.Errorf("got %v", err)
	}
	if _, err := call(t, "verify", "--store", t.TempDir()); command.ExitCode(err) != 1 {
		t.Errorf("there is no store: %v", err)
	}
}
