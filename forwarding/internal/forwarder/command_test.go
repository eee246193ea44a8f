// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/forwarding/sink"
)

const cluster = "0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10"

const scanJSON = `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"nightly","namespace":"team-a","uid":"u-1","creationTimestamp":"2026-11-20T03:00:00Z"},` +
	`"spec":{"scanType":"nmap","parameters":["-p","22"]},"status":{"state":"Done","finishedAt":"2026-11-20T03:04:05Z","findings":{"count":2,"severities":{"low":2}}}}`

const findingsJSON = `[{"name":"a","severity":"LOW","attributes":{"port": 22}},{"name":"b","severity":"INFORMATIONAL"}]`

// run runs the command with files of a Scan and its findings.
func run(t *testing.T, scan, findings string, args ...string) (out, errs string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"scan.json": scan, "findings.json": findings} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	var outBuffer, errBuffer bytes.Buffer
	command := New(Options{Out: &outBuffer, Err: &errBuffer, Version: "v1.2.3", Getenv: func(string) string { return "" }})
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	if err != nil {
		errBuffer.WriteString(err.Error())
	}
	return outBuffer.String(), errBuffer.String(), ExitCode(err)
}

var files = []string{"--cluster-id=" + cluster, "--scan=DIR/scan.json", "--findings=DIR/findings.json"}

// far is a sink that takes everything, or refuses to be reached.
type far struct {
	sync.Mutex
	down    bool
	records []sink.Record
}

func (f *far) Deliver(_ context.Context, batch sink.Batch) (sink.Outcome, error) {
	f.Lock()
	defer f.Unlock()
	if f.down {
		return sink.Outcome{}, &sink.Error{Class: sink.Transport, Reason: sink.ConnectionRefused, Message: "nobody listens"}
	}
	f.records = append(f.records, batch.Records...)
	return sink.Outcome{}, nil
}

func (*far) Probe(context.Context) error { return nil }
func (*far) Close() error                { return nil }

func register(scheme string, f *far) {
	sink.Register(scheme, func(sink.Config) (sink.Sink, error) { return f, nil })
}

func TestMap(t *testing.T) {
	out, errs, code := run(t, scanJSON, findingsJSON, append([]string{"map", "--extra=clusterName=prod-1"}, files...)...)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var types, subjects []string
	for text := range strings.Lines(out) {
		var event struct {
			ID, Source, Type string
			Sequence         string `json:"scanyardsequence"`
			Data             struct {
				Subject    string
				Attributes json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		types = append(types, event.Type+" "+event.Sequence)
		subjects = append(subjects, event.Data.Subject+string(event.Data.Attributes))
		if event.Source != "/scanyard/"+cluster+"/team-a/nightly" {
			t.Errorf("got %s", event.Source)
		}
	}
	const prefix = "io.scanyard.forwarding.v1."
	if got, want := strings.Join(types, ","), prefix+"scan 1,"+prefix+"result 2,"+prefix+"result 3,"+prefix+"closing 4"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	if got, want := strings.Join(subjects, ","), `,prod-1{"port": 22},prod-1,`; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestMapReportsInvalidRecords(t *testing.T) {
	out, errs, code := run(t, scanJSON, `[7,{"name":"a"}]`, append([]string{"map"}, files...)...)
	if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(errs, "element 0 of findings.json is not an object") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if _, errs, code := run(t, scanJSON, `[{"name":"a"}`, append([]string{"map"}, files...)...); code != 1 || !strings.Contains(errs, "read findings.json") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestSend(t *testing.T) {
	up := &far{}
	register("test-up", up)
	out, errs, code := run(t, scanJSON, findingsJSON, append([]string{"send", "--sink=b=test-up://x", "--sink=a=test-up://x"}, files...)...)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"sink":"b","records":4,"stored":4,"duplicates":0,"rejected":0,"verdict":"Accepted","chain":"`) || !strings.HasPrefix(lines[1], `{"sink":"a",`) {
		t.Errorf("got %s", out)
	}
	if len(up.records) != 8 {
		t.Errorf("%d records came", len(up.records))
	}
}

func TestSendThatFails(t *testing.T) {
	register("test-up", &far{})
	register("test-down", &far{down: true})
	out, errs, code := run(t, scanJSON, findingsJSON, append([]string{"send", "--timeout=100ms", "--sink=up=test-up://x", "--sink=down=test-down://x,retryMax=10ms"}, files...)...)
	if code != 1 || !strings.Contains(errs, "sink down: ConnectionRefused: nobody listens") || strings.Contains(errs, "sink up") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if !strings.Contains(out, `{"sink":"up","records":4,"stored":4,`) || !strings.Contains(out, `"sink":"down"`) || !strings.Contains(out, `"verdict":"Pending"`) {
		t.Errorf("got %s", out)
	}
}

func TestErroredScanNeedsNoFindings(t *testing.T) {
	register("test-up", &far{})
	errored := strings.Replace(scanJSON, `"Done"`, `"Errored"`, 1)
	if out, errs, code := run(t, errored, "", "send", "--cluster-id=c", "--scan=DIR/scan.json", "--sink=up=test-up://x"); code != 0 || !strings.Contains(out, `"records":2,`) {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

func TestWrongFlags(t *testing.T) {
	register("test-up", &far{})
	tests := map[string]struct {
		scan string
		args []string
		want string
	}{
		"NoCluster":      {scanJSON, []string{"map", files[1], files[2]}, "--cluster-id"},
		"NoScan":         {scanJSON, []string{"map", files[0], files[2]}, "--scan"},
		"NoSuchScan":     {scanJSON, []string{"map", files[0], "--scan=DIR/none", files[2]}, "--scan"},
		"NoFindings":     {scanJSON, []string{"map", files[0], files[1]}, "--findings"},
		"NoSuchFindings": {scanJSON, []string{"send", "--sink=up=test-up://x", files[0], files[1], "--findings=DIR/none"}, "--findings"},
		"NoUID":          {strings.Replace(scanJSON, `"uid":"u-1",`, "", 1), append([]string{"map"}, files...), "metadata.uid"},
		"NotAScan":       {strings.Replace(scanJSON, `"kind":"Scan"`, `"kind":"List"`, 1), append([]string{"map"}, files...), "holds a List"},
		"NoJSON":         {`{`, append([]string{"map"}, files...), "--scan"},
		"BadExtra":       {scanJSON, append([]string{"map", "--extra=x"}, files...), "--extra"},
		"OurExtra":       {scanJSON, append([]string{"map", "--extra=scanyard.x=y"}, files...), "are ours"},
		"NoSink":         {scanJSON, append([]string{"send"}, files...), "--sink"},
		"BadSink":        {scanJSON, append([]string{"send", "--sink=x"}, files...), "--sink"},
		"UnknownSink":    {scanJSON, append([]string{"send", "--sink=x=gopher://h"}, files...), "is not known: use one of"},
		"PlainSink":      {scanJSON, append([]string{"send", "--sink=x=grpc://h:1"}, files...), "plain text"},
		"SameName":       {scanJSON, append([]string{"send", "--sink=x=test-up://h", "--sink=x=test-up://h"}, files...), "given twice"},
		"BadTimeout":     {scanJSON, append([]string{"send", "--timeout=0s", "--sink=x=test-up://h"}, files...), "--timeout"},
		"NoDuration":     {scanJSON, append([]string{"send", "--timeout=soon"}, files...), "timeout"},
		"UnknownFlag":    {scanJSON, []string{"map", "--colour"}, "--colour"},
		"UnknownCommand": {scanJSON, []string{"fly"}, `"fly"`},
		"Argument":       {scanJSON, []string{"map", "x"}, `"x"`},
		"BadClusterID":   {scanJSON, []string{"cluster-id", "ensure", "--namespace=a", "--value=prod"}, `--value: "prod" must be a UUID`},
		"NoNamespace":    {scanJSON, []string{"cluster-id", "get"}, "--namespace"},
		"NoKubeconfig":   {scanJSON, []string{"cluster-id", "get", "--namespace=a", "--kubeconfig=DIR/none"}, "--kubeconfig"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{}, tt.args...)
			if out, errs, code := run(t, tt.scan, findingsJSON, args...); code != 2 || !strings.Contains(errs, tt.want) || out != "" {
				t.Errorf("want exit 2 and %q, got exit %d: %s%s", tt.want, code, out, errs)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"cluster-id"}} {
		if out, errs, code := run(t, "", "", args...); code != 2 || !strings.Contains(out, "Usage:") || !strings.Contains(errs, "a command is missing") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
		}
	}
	for _, args := range [][]string{{"--help"}, {"send", "--help"}, {"map", "--help"}, {"cluster-id", "--help"}} {
		if out, errs, code := run(t, "", "", args...); code != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
		}
	}
	if out, _, code := run(t, "", "", "--version"); code != 0 || !strings.Contains(out, "v1.2.3") {
		t.Errorf("exit %d, %s", code, out)
	}
}
