// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/client"
)

// TestMain makes this test binary the program, where a test starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("EXPORTER_RUN") != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// program is a running exporter.
type program struct {
	cmd   *exec.Cmd
	http  string
	grpc  string
	audit string
	ended chan error
	log   *logged
}

// logged is what a program has logged so far.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write takes what the program logs.
func (s *logged) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *logged) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

type place struct {
	dir, socket, url string
	// wrap and attributes change how the program is started; nil: they do not.
	wrap       func(args []string) []string
	attributes *syscall.SysProcAttr
}

func newPlace(t *testing.T, url string) place {
	t.Helper()
	dir := t.TempDir()
	return place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock"), url: url}
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "EXPORTER_RUN=1")
	return cmd
}

func (p place) start(t testing.TB, more ...string) *program {
	t.Helper()
	args := append([]string{
		"run", "--dir", p.dir, "--socket", p.socket, "--cluster-id", "c", "--print-address", "--http-listen", "127.0.0.1:0",
		"--retry-initial", "10ms", "--retry-max", "100ms", "--disk-reserve", "0",
	}, more...)
	if p.url != "" {
		args = append(args, "--sink", "hub="+p.url+",insecure=true")
	}
	cmd := command(args...)
	if p.wrap != nil {
		cmd.Args = p.wrap(cmd.Args)
		cmd.Path, cmd.SysProcAttr = cmd.Args[0], p.attributes
	}
	r := &program{cmd: cmd, ended: make(chan error, 1), log: &logged{}}
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the exporter did not start: %v, %s", r.cmd.Wait(), r.log)
	}
	var address struct {
		Program, Socket, GRPC, Audit, HTTP string
		PID                                int
		Queue                              struct {
			ID      string
			Records *int
			Durable bool
		}
	}
	if err := json.Unmarshal(line, &address); err != nil || address.Program != "exporter" || address.Socket != p.socket || address.PID != r.cmd.Process.Pid || address.Queue.Durable == slices.Contains(more, "--volatile") || address.Queue.Records == nil {
		t.Fatalf("%s: %v", line, err)
	}
	r.http, r.grpc, r.audit = "http://"+address.HTTP, address.GRPC, address.Audit
	go func() { r.ended <- r.cmd.Wait() }()
	return r
}

// kill ends the program as a crash does.
func (r *program) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.ended
}

type queueView struct {
	ID      string
	Records uint64
	Sinks   []struct {
		Name, State, Reason string
		Pending             uint64
		Delivered           uint64
		DeadLetters         int
	}
}

func (r *program) queue(t *testing.T) queueView {
	t.Helper()
	response, err := http.Get(r.http + "/v1/queue")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var v queueView
	if err := json.NewDecoder(response.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *program) waitFor(t *testing.T, what string, is func(queueView) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		v := r.queue(t)
		if is(v) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, %s", what, v, r.log)
		}
	}
}

func isEmpty(v queueView) bool { return v.Records == 0 }

// farEnd is a server that remembers the messages of decisions.
type farEnd struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    map[string]int
}

func newFarEnd(t *testing.T) *farEnd {
	t.Helper()
	f := &farEnd{status: http.StatusOK, got: map[string]int{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender was killed
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		w.WriteHeader(f.status)
		if f.status != http.StatusOK {
			return
		}
		var events []struct{ Data struct{ Message string } }
		if err := json.Unmarshal(body, &events); err != nil {
			t.Error(err)
		}
		for _, e := range events {
			f.got[e.Data.Message]++
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *farEnd) answer(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

// lost counts the messages below n that are not here.
func (f *farEnd) lost(n int) (lost int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		if f.got[strconv.Itoa(i)] == 0 {
			lost++
		}
	}
	return lost
}

// produce logs messages with rising numbers until stop is closed, and gives how many.
func produce(t *testing.T, c *decision.Client, stop <-chan struct{}) int {
	t.Helper()
	for n := 0; ; {
		select {
		case <-stop:
			return n
		default:
		}
		if c.Log(&decision.Record{EventType: "audit_violation", Message: strconv.Itoa(n)}) {
			n++
			continue
		}
		time.Sleep(time.Millisecond) // its buffer is full
	}
}

func kills(short int) int {
	if os.Getenv("FAULT_LONG") != "" {
		return 200
	}
	return short
}

// faultKill kills the exporter at random points while a producer goes on, and tells what the far end lacks at the end.
func faultKill(t *testing.T, status int) {
	far := newFarEnd(t)
	far.answer(status)
	p := newPlace(t, far.URL)
	client, err := decision.Dial("unix://"+p.socket, decision.Config{Producer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	stop, sent := make(chan struct{}), make(chan int)
	go func() { sent <- produce(t, client, stop) }()
	for range kills(6) {
		r := p.start(t)
		time.Sleep(rand.N(60 * time.Millisecond)) // the point of the kill is random
		r.kill(t)
	}
	far.answer(http.StatusOK)
	r := p.start(t)
	close(stop)
	n := <-sent
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		t.Fatal(err)
	}
	r.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(n); lost > 0 || n == 0 {
		t.Errorf("%d of %d acknowledged records are lost", lost, n)
	}
	if status != http.StatusOK {
		far.mu.Lock()
		defer far.mu.Unlock()
		if len(far.got) != n {
			t.Errorf("%d messages came of %d", len(far.got), n)
		}
	}
}

func TestFaultKillExporterDown(t *testing.T) { faultKill(t, http.StatusServiceUnavailable) }

func TestFaultKillExporterUp(t *testing.T) { faultKill(t, http.StatusOK) }

func send(t *testing.T, p place, n int) {
	t.Helper()
	client, err := decision.Dial("unix://"+p.socket, decision.Config{MaxRecords: n + 1, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		client.Log(&decision.Record{EventType: "audit_violation", Message: strconv.Itoa(i)})
	}
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFaultSigterm(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	r := p.start(t, "--shutdown-timeout", "200ms")
	n := 5000
	if os.Getenv("FAULT_LONG") != "" {
		n = 100000
	}
	send(t, p, n)
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-r.ended; err != nil || !strings.Contains(r.log.String(), fmt.Sprintf(`"left":%d`, n)) {
		t.Errorf("%v, %s", err, r.log)
	}
	if _, err := os.Lstat(p.socket); err == nil {
		t.Error("the socket is still there")
	}
	far.answer(http.StatusOK)
	r = p.start(t)
	r.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(n); lost > 0 {
		t.Errorf("%d of %d are lost", lost, n)
	}
}

// TestHops hands records from one exporter to the next by gRPC, as a side car does with that of its cluster.
func TestHops(t *testing.T) {
	far := newFarEnd(t)
	second := newPlace(t, far.URL)
	hub := second.start(t, "--grpc-listen", "127.0.0.1:0", "--grpc-insecure")
	first := newPlace(t, "grpc://"+hub.grpc)
	sideCar := first.start(t)
	send(t, first, 300)
	c, err := client.New(client.Config{URL: "grpc://" + hub.grpc, Producer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := c.Send(t.Context(), &decision.Record{EventType: "audit_violation", Message: strconv.Itoa(300 + i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sideCar.waitFor(t, "the side car is empty", isEmpty)
	hub.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(400); lost > 0 {
		t.Errorf("%d are lost", lost)
	}
	if err := hub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-hub.ended; err != nil {
		t.Errorf("an open stream keeps the exporter from ending: %v, %s", err, hub.log)
	}
}

func TestFaultAuth(t *testing.T) {
	for status, state := range map[int]string{401: "AuthFailed", 403: "AuthFailed", 404: "Incompatible", 501: "Incompatible", 429: "Overloaded"} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			far := newFarEnd(t)
			far.answer(status)
			p := newPlace(t, far.URL)
			r := p.start(t)
			send(t, p, 1000)
			r.waitFor(t, "the state is told", func(v queueView) bool {
				return v.Sinks[0].State == state && v.Records == 1000 && v.Sinks[0].DeadLetters == 0
			})
			far.answer(http.StatusOK)
			r.waitFor(t, "all is delivered", func(v queueView) bool { return v.Records == 0 && v.Sinks[0].State == "Healthy" })
			if lost := far.lost(1000); lost > 0 {
				t.Errorf("%d are lost", lost)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	far := newFarEnd(t)
	p := newPlace(t, far.URL)
	p.start(t)
	sink := "hub=" + far.URL + ",insecure=true"
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"Version":      {[]string{"--version"}, 0, ""},
		"Help":         {[]string{"run", "--help"}, 0, ""},
		"NoCommand":    {nil, 2, "a command is missing: use run or queue"},
		"Unknown":      {[]string{"nonsense"}, 2, `command "nonsense" is not known: use run or queue`},
		"QueueUnknown": {[]string{"queue", "nonsense"}, 2, `command "nonsense" is not known: use ls, verify`},
		"UnknownFlag":  {[]string{"run", "--nonsense"}, 2, "--nonsense"},
		"NoDir":        {[]string{"run", "--cluster-id", "c", "--socket", "x", "--sink", sink}, 2, "--dir is required"},
		"NoIntake":     {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink}, 2, "--socket is required, or --grpc-listen, or --audit-listen"},
		"PlainGRPC":    {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink, "--grpc-listen", "127.0.0.1:0"}, 2, "would take records in plain text"},
		"GRPCKey":      {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink, "--grpc-listen", "127.0.0.1:0", "--grpc-tls-cert", "x"}, 2, "belong together"},
		"GRPCFiles":    {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink, "--grpc-listen", "127.0.0.1:0", "--grpc-tls-cert", "x", "--grpc-tls-key", "y"}, 2, "--grpc-tls-cert"},
		"GRPCTokens":   {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink, "--grpc-listen", "127.0.0.1:0", "--grpc-insecure", "--grpc-tokens", "x"}, 2, "--grpc-tokens"},
		"GRPCNoListen": {[]string{"run", "--dir", "d", "--cluster-id", "c", "--sink", sink, "--socket", "x", "--grpc-insecure"}, 2, "--grpc-listen is required"},
		"NoSink":       {[]string{"run", "--dir", "d", "--cluster-id", "c", "--socket", "x"}, 2, "--sink is required"},
		"PlainSink":    {[]string{"run", "--dir", "d", "--cluster-id", "c", "--socket", "x", "--sink", "hub=" + far.URL}, 2, "--sink"},
		"OnFull":       {[]string{"run", "--dir", "d", "--cluster-id", "c", "--socket", "x", "--sink", sink, "--on-full", "panic"}, 2, "--on-full"},
		"Size":         {[]string{"run", "--dir", "d", "--cluster-id", "c", "--socket", "x", "--sink", sink, "--queue-max-bytes", "1MiB"}, 2, "--queue-max-bytes must be at least 4MiB"},
		"InUse":        {[]string{"run", "--dir", p.dir, "--cluster-id", "c", "--socket", p.socket + "2", "--sink", sink}, 3, "is in use by pid"},
		"QueueNoDir":   {[]string{"queue", "ls"}, 2, "--dir is required"},
		"List":         {[]string{"queue", "ls", "--dir", p.dir, "--output", "json"}, 0, ""},
		"Verify":       {[]string{"queue", "verify", "--dir", p.dir}, 0, ""},
		"ReplayNobody": {[]string{"queue", "replay", "--dir", p.dir, "--sink", "nobody", "--all"}, 1, "there is no sink nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(c.args...)
			cmd.Dir = t.TempDir()
			var says strings.Builder
			cmd.Stderr = &says
			_ = cmd.Run() // the exit code is what counts
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(says.String(), c.says) {
				t.Errorf("exit %d, %s", code, &says)
			}
		})
	}
}
