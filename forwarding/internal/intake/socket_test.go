// SPDX-License-Identifier: Apache-2.0

package intake_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

type nobody struct{}

func (nobody) Enqueued(string, string, int) {}
func (nobody) Rejected(string)              {}
func (nobody) Paused(int)                   {}

// bench is a socket over a queue in memory.
type bench struct {
	q    *queue.Queue
	path string
	stop context.CancelFunc
}

func start(t *testing.T, change func(*queue.Options, *intake.Options)) *bench {
	t.Helper()
	qo := queue.Options{Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: 1 << 29, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now}
	io := intake.Options{Tenant: "default", MaxLineBytes: 1 << 10, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observe: nobody{}}
	if change != nil {
		change(&qo, &io)
	}
	q, err := queue.Open(qo)
	if err != nil {
		t.Fatal(err)
	}
	io.Queue = q
	b := &bench{q: q, path: filepath.Join(t.TempDir(), "s", "e.sock")}
	s, err := intake.Listen(t.Context(), b.path, intake.Access{}, io)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: b.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// talk sends text, ends its half of the connection, and gives what the exporter says.
func (b *bench) talk(t *testing.T, text string) string {
	t.Helper()
	conn := b.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

func line(message string) string {
	return fmt.Sprintf(`{"eventType":"a","message":%q}`, message) + "\n"
}

func (b *bench) records(t *testing.T, tenant string) []*queue.Record {
	t.Helper()
	r, err := b.q.Reader(tenant)
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 1<<20, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

const welcomeTail = `"maxLineBytes":1024,"windowBytes":4194304,"durable":true}}`

func TestProtocol(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]struct {
		send   string
		want   []string // the last lines
		stored int
	}{
		"OneLine":       {line("x"), []string{`{"ack":{"through":1}}`}, 1},
		"CarriageEnd":   {strings.TrimSuffix(line("x"), "\n") + "\r\n", []string{`{"ack":{"through":1}}`}, 1},
		"NoNewline":     {strings.TrimSuffix(line("x"), "\n"), []string{`{"ack":{"through":1}}`}, 1},
		"Truncated":     {line("x") + `{"eventType":"a"`, []string{`{"reject":{"line":2,"code":"Truncated","message":"the stream ended inside of the record","retry":false}}`, `{"ack":{"through":2}}`}, 1},
		"BlankCounts":   {"\n\n" + line("x"), []string{`{"ack":{"through":3}}`}, 1},
		"Nothing":       {"", []string{""}, 0},
		"Malformed":     {`{"eventType":"a"}` + "\n" + line("x"), []string{`{"ack":{"through":2}}`}, 1},
		"NotUTF8":       {"{\"message\":\"\xff\"}\n", []string{`{"reject":{"line":1,"code":"Malformed","message":"byte 12: not UTF-8","retry":false}}`, `{"ack":{"through":1}}`}, 0},
		"TooLarge":      {line(long) + line("x"), []string{`{"ack":{"through":2}}`}, 1},
		"Hello":         {`{"$hello":{"protocol":1}}` + "\n", []string{`{"welcome":{"protocol":1,"through":0,"gap":0,` + welcomeTail}, 0},
		"HelloLater":    {line("x") + `{"$hello":{"protocol":1}}` + "\n", []string{`{"error":{"code":"UnknownControl","message":"$hello must be the first line"}}`}, 1},
		"LongProducer":  {`{"$hello":{"protocol":1,"producer":"` + strings.Repeat("p", 254) + `"}}` + "\n", []string{`{"error":{"code":"UnknownControl","message":"the name of a producer has at most 253 bytes"}}`}, 0},
		"Protocol2":     {`{"$hello":{"protocol":2}}` + "\n", []string{`{"error":{"code":"UnsupportedProtocol","message":"protocol 2 is not supported","supported":[1]}}`}, 0},
		"Unknown":       {`{"$bye":{}}` + "\n", []string{`{"error":{"code":"UnknownControl","message":"the control line is not known: there are $hello and $ping"}}`}, 0},
		"LineTooLong":   {strings.Repeat("x", 66<<10), []string{`{"error":{"code":"LineTooLong","message":"a line has more than 65536 bytes"}}`}, 0},
		"ControlCounts": {`{"$ping":{}}` + "\n" + line("x"), []string{`{"ack":{"through":1}}`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, nil)
			said := strings.Split(strings.TrimSuffix(b.talk(t, c.send), "\n"), "\n")
			if len(said) < len(c.want) || strings.Join(said[len(said)-len(c.want):], "\n") != strings.Join(c.want, "\n") {
				t.Errorf("the exporter said %q, want %q", said, c.want)
			}
			if got := len(b.records(t, "default")); got != c.stored {
				t.Errorf("%d records are stored, want %d", got, c.stored)
			}
		})
	}
}

func TestTooLargeErrorNamesSizes(t *testing.T) {
	b := start(t, nil)
	for size, want := range map[int]string{
		1024:     `{"ack":{"through":1}}`,
		1025:     `"code":"TooLarge","message":"the record has 1025 bytes, and may have 1024"`,
		1026:     `"code":"TooLarge","message":"the record has 1026 bytes, and may have 1024"`,
		5000:     `"code":"TooLarge","message":"the record has 5000 bytes, and may have 1024"`,
		64000:    `"code":"TooLarge","message":"the record has 64000 bytes, and may have 1024"`,
		64 << 10: `"code":"TooLarge","message":"the record has 65536 bytes, and may have 1024"`,
	} {
		text := line(strings.Repeat("x", size-len(line(""))+1))
		if len(text) != size+1 {
			t.Fatal(len(text), size)
		}
		if said := b.talk(t, text); !strings.Contains(said, want) {
			t.Errorf("%d bytes: %s", size, said)
		}
	}
}

func TestSessions(t *testing.T) {
	b := start(t, nil)
	hello := func(first int) string {
		return fmt.Sprintf(`{"$hello":{"protocol":1,"session":"s","producer":"p","first":%d}}`, first) + "\n"
	}
	b.talk(t, hello(1)+line("1")+line("2"))
	said := b.talk(t, hello(1)+line("1")+line("2")+line("3"))
	if want := `{"welcome":{"protocol":1,"through":2,"gap":0,` + welcomeTail; !strings.HasPrefix(said, want) || !strings.HasSuffix(said, `{"ack":{"through":3}}`+"\n") {
		t.Errorf("said %s", said)
	}
	records := b.records(t, "default")
	if len(records) != 3 || records[2].Metadata["producer"] != "p" || records[2].Metadata["pid"] != strconv.Itoa(os.Getpid()) {
		t.Errorf("stored %d, %v", len(records), records[len(records)-1].Metadata)
	}
	if said := b.talk(t, hello(10)); !strings.Contains(said, `"through":3,"gap":6,`) {
		t.Errorf("said %s", said)
	}
}

// TestSessionIsExclusive connects anew while the connection before is still open.
func TestSessionIsExclusive(t *testing.T) {
	b := start(t, nil)
	first := b.dial(t)
	if _, err := io.WriteString(first, `{"$hello":{"protocol":1,"session":"s"}}`+"\n"+line("1")+line("2")); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(first)
	for through := ""; through != `{"ack":{"through":2}}`+"\n"; {
		var err error
		if through, err = answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	said := b.talk(t, `{"$hello":{"protocol":1,"session":"s"}}`+"\n"+line("1")+line("2")+line("3"))
	if !strings.HasPrefix(said, `{"welcome":{"protocol":1,"through":2,`) || !strings.HasSuffix(said, `{"ack":{"through":3}}`+"\n") {
		t.Error(said)
	}
	rest, err := io.ReadAll(answers)
	if err != nil || string(rest) != `{"bye":{"through":2}}`+"\n" {
		t.Errorf("the first connection is told %q, %v", rest, err)
	}
	if got := len(b.records(t, "default")); got != 3 {
		t.Errorf("%d records are there", got)
	}
}

func TestQuotaBlocks(t *testing.T) {
	b := start(t, func(q *queue.Options, _ *intake.Options) { q.TenantMaxBytes = 300 })
	conn := b.dial(t)
	if _, err := io.WriteString(conn, line("1")+line("2")+line("3")+line("4")); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(conn)
	expect := func(want string) {
		t.Helper()
		for said.Scan() {
			if said.Text() == want {
				return
			}
			if strings.Contains(said.Text(), `"through":4`) {
				t.Fatalf("%s came before %s", said.Text(), want)
			}
		}
		t.Fatalf("%s was not said", want)
	}
	expect(`{"pause":{"reason":"QuotaReached","tenant":"default"}}`)
	for b.q.Last("default") < 3 { // what was read is on its way to the disk
		arrived := b.q.Arrived()
		if b.q.Last("default") < 3 {
			<-arrived
		}
	}
	done := make(chan error, 1)
	b.q.Settle(queue.Settlement{Sink: "hub", Tenant: "default", Through: b.q.Last("default")}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	expect(`{"resume":{}}`)
	expect(`{"ack":{"through":4}}`)
}

// TestFaultDiskFull has a volume whose room goes away under the exporter, and comes back.
func TestFaultDiskFull(t *testing.T) {
	const reserve = 1 << 20
	var free atomic.Int64
	free.Store(1 << 30)
	b := start(t, func(o *queue.Options, _ *intake.Options) {
		o.DiskReserve, o.Free = reserve, func() (int64, error) { return free.Load(), nil }
	})
	conn := b.dial(t)
	answers := bufio.NewReader(conn)
	next := func() string {
		t.Helper()
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	say(line("1"))
	if got := next(); got != `{"ack":{"through":1}}`+"\n" {
		t.Fatal(got)
	}
	free.Store(reserve - 1)
	for !b.q.Usage().DiskFull { // the queue looks every now and then
		runtime.Gosched()
	}
	say(line("2"))
	if got := next(); got != `{"pause":{"reason":"QuotaReached","tenant":"default"}}`+"\n" {
		t.Error(got)
	}
	if got := len(b.records(t, "default")); got != 1 {
		t.Errorf("%d records were written to a volume that is full", got)
	}
	free.Store(1 << 30)
	if got := next(); got != `{"resume":{}}`+"\n" {
		t.Error(got)
	}
	if got := next(); got != `{"ack":{"through":2}}`+"\n" {
		t.Error(got)
	}
	if got := len(b.records(t, "default")); got != 2 {
		t.Errorf("%d records are there", got)
	}
}

func TestQuotaRejects(t *testing.T) {
	b := start(t, func(q *queue.Options, o *intake.Options) {
		q.TenantMaxBytes, q.OnFull, o.RejectWhenFull = 150, queue.Reject, true
	})
	said := b.talk(t, line("1")+line("2"))
	if !strings.Contains(said, `{"reject":{"line":2,"code":"QuotaReached"`) || !strings.Contains(said, `"retry":true`) || !strings.HasSuffix(said, `{"ack":{"through":2}}`+"\n") {
		t.Errorf("said %s", said)
	}
}

func TestTenantsOfOneConnection(t *testing.T) {
	b := start(t, func(q *queue.Options, o *intake.Options) { q.TenantMaxBytes, o.ByNamespace = 150, true })
	of := func(namespace string) string {
		return fmt.Sprintf(`{"eventType":"a","message":"x","resourceNamespace":%q}`, namespace) + "\n"
	}
	said := b.talk(t, of("a")+of("a")+of("b"))
	if !strings.Contains(said, `{"reject":{"line":2,"code":"QuotaReached"`) || len(b.records(t, "a")) != 1 || len(b.records(t, "b")) != 1 {
		t.Errorf("said %s", said)
	}
}

func TestBye(t *testing.T) {
	b := start(t, nil)
	conn := b.dial(t)
	if _, err := io.WriteString(conn, line("1")); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(conn)
	if !said.Scan() || said.Text() != `{"ack":{"through":1}}` {
		t.Fatal(said.Text())
	}
	b.stop()
	if !said.Scan() || said.Text() != `{"bye":{"through":1}}` || said.Scan() {
		t.Error(said.Text())
	}
	if _, err := os.Lstat(b.path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := intake.Listen(t.Context(), filepath.Join(dir, "e.sock"), intake.Access{}, intake.Options{})
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	b := start(t, nil)
	if _, err := intake.Listen(t.Context(), b.path, intake.Access{}, intake.Options{}); err == nil || !strings.Contains(err.Error(), "another program answers") {
		t.Errorf("got %v", err)
	}
}
