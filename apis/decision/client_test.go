// SPDX-License-Identifier: Apache-2.0

package decision_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
)

// far is the exporter's side of one connection.
type far struct {
	conn  net.Conn
	lines *bufio.Scanner
	hello struct {
		Protocol int
		Session  string
		Producer string
		First    uint64
	}
}

func accept(t *testing.T, listener net.Listener) *far {
	t.Helper()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f := &far{conn: conn, lines: bufio.NewScanner(conn)}
	var line map[string]json.RawMessage
	if err := json.Unmarshal([]byte(f.line(t)), &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line["$hello"], &f.hello); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *far) line(t *testing.T) string {
	t.Helper()
	if !f.lines.Scan() {
		t.Fatalf("the client sends no more: %v", f.lines.Err())
	}
	return f.lines.Text()
}

func (f *far) say(t *testing.T, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(f.conn, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, config decision.Config) (*decision.Client, net.Listener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	c, err := decision.Dial("unix://"+path, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ended)
	})
	return c, listener
}

func record(message string) *decision.Record {
	return &decision.Record{EventType: "audit_violation", Message: message}
}

func TestClientSendsAgainWhatIsNotAcknowledged(t *testing.T) {
	c, listener := dial(t, decision.Config{Producer: "test"})
	for _, m := range []string{"one", "two", "three"} {
		if !c.Log(record(m)) {
			t.Fatal("dropped")
		}
	}
	first := accept(t, listener)
	if first.hello.Protocol != 1 || first.hello.First != 1 || first.hello.Producer != "test" || first.hello.Session == "" {
		t.Errorf("hello: %+v", first.hello)
	}
	var second string
	for i := range 3 {
		if line := first.line(t); i == 1 {
			second = line
		}
	}
	first.say(t, `{"ack":{"through":1}}`)
	first.conn.Close()
	again := accept(t, listener)
	if again.hello.Session != first.hello.Session {
		t.Error("the session changed")
	}
	if again.hello.First != 2 && again.hello.First != 1 { // the ack may have been lost with the connection
		t.Errorf("first is %d", again.hello.First)
	}
	if again.hello.First == 1 {
		again.line(t)
	}
	if line := again.line(t); line != second {
		t.Errorf("the line changed when it was sent again: %s, before %s", line, second)
	}
	again.line(t)
	again.say(t, `{"welcome":{"protocol":1,"through":1,"unknown":true}}`)
	again.say(t, `{"ack":{"through":3}}`)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Acknowledged != 3 || s.Logged != 3 || len(s.Dropped) > 1 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestClientSendTellsRejects(t *testing.T) {
	c, listener := dial(t, decision.Config{})
	go func() {
		f := accept(t, listener)
		f.line(t)
		f.line(t)
		f.say(t, `{"reject":{"line":2,"code":"TooLarge","message":"too large","retry":false}}`)
		f.say(t, `{"ack":{"through":2}}`)
	}()
	err := c.Send(t.Context(), record("a"), record("b"))
	rejected, ok := errors.AsType[*decision.RejectedError](err)
	if !ok || rejected.Code != "TooLarge" {
		t.Errorf("got %v", err)
	}
}

func TestClientSendsAgainWhatMetAQuota(t *testing.T) {
	c, listener := dial(t, decision.Config{})
	go func() {
		f := accept(t, listener)
		first := f.line(t)
		f.say(t, `{"reject":{"line":1,"code":"QuotaReached","message":"full","retry":true}}`)
		f.say(t, `{"ack":{"through":1}}`)
		if second := f.line(t); second != first {
			t.Errorf("%s became %s", first, second)
		}
		f.say(t, `{"ack":{"through":2}}`)
	}()
	if err := c.Send(t.Context(), record("a")); err != nil {
		t.Error(err)
	}
}

func TestClientDropsWhatDoesNotFit(t *testing.T) {
	c, err := decision.Dial("unix:///nowhere/at/all.sock", decision.Config{MaxRecords: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Log(record("a")) || !c.Log(record("b")) || c.Log(record("c")) || c.Log(&decision.Record{}) {
		t.Error("two fit, and no more")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); err == nil || !strings.HasPrefix(err.Error(), "2 records were not acknowledged") {
		t.Errorf("got %v", err)
	}
	if s := c.Stats(); s.Dropped["buffer"] != 1 || s.Dropped["invalid"] != 1 || s.Dropped["closed"] != 2 {
		t.Errorf("%+v", s)
	}
	if c.Log(record("d")) {
		t.Error("a closed client takes nothing")
	}
}

func TestDialWithoutAddress(t *testing.T) {
	c, err := decision.Dial("", decision.Config{})
	if err != nil || c != nil {
		t.Fatalf("got %v, %v", c, err)
	}
	if err := errors.Join(c.Send(t.Context(), record("a")), c.Close(t.Context())); err != nil || !c.Log(record("a")) || c.Stats().Logged != 0 {
		t.Errorf("a nil client does nothing: %v", err)
	}
	if _, err := decision.Dial("tcp://localhost:1", decision.Config{}); err == nil || !strings.Contains(err.Error(), "write unix:///path") {
		t.Errorf("got %v", err)
	}
}

func TestNilClientAllocatesNothing(t *testing.T) {
	var c *decision.Client
	input := json.RawMessage(`{}`)
	if n := testing.AllocsPerRun(100, func() {
		c.Log(&decision.Record{EventType: "a", Message: "b", Input: input})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
