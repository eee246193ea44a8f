// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/client"
)

// said is a line of the exporter.
type said struct {
	Welcome, Ack *struct{ Through uint64 }
	Reject       *struct {
		Line uint64
		Code string
	}
	Error *struct{ Code, Message string }
}

// producer is a connection with a session.
type producer struct {
	*net.UnixConn

	lines *bufio.Reader
}

// resume connects, and gives the number through which the session's records are on disk.
func (p place) resume(t *testing.T, session string, first uint64) (*producer, uint64) {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	c := &producer{conn, bufio.NewReader(conn)}
	if _, err := fmt.Fprintf(conn, `{"$hello":{"protocol":1,"session":%q,"first":%d}}`+"\n", session, first); err != nil {
		t.Fatal(err)
	}
	answer, err := c.read()
	if err != nil || answer.Welcome == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	return c, answer.Welcome.Through
}

func (c *producer) read() (answer said, err error) {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(line, &answer)
}

// TestFaultKillProducer ends a producer at random points, also in the middle of a line, and lets it go on by its session.
func TestFaultKillProducer(t *testing.T) {
	far := newFarEnd(t)
	p := newPlace(t, far.URL)
	r := p.start(t)
	const n = 3000
	acked := uint64(0)
	for range kills(25) {
		c, through := p.resume(t, "s", acked+1)
		if through < acked {
			t.Fatalf("%d was acknowledged, and %d is on disk", acked, through)
		}
		var text strings.Builder
		for i := acked + 1; i <= min(through+200, n); i++ {
			fmt.Fprintf(&text, `{"eventType":"audit_violation","message":"%d"}`+"\n", i-1)
		}
		cut := text.String()[:rand.IntN(text.Len()+1)]
		if _, err := io.WriteString(c, cut); err != nil {
			t.Fatal(err)
		}
		if rand.IntN(2) == 0 && strings.Contains(cut, "\n") { // it lives long enough to hear something
			answer, err := c.read()
			if err != nil || answer.Ack == nil {
				t.Fatalf("%+v, %v", answer, err)
			}
			acked = answer.Ack.Through
		}
		if err := c.Close(); err != nil { // what the kernel does for a process that is killed
			t.Fatal(err)
		}
	}
	c, _ := p.resume(t, "s", acked+1)
	for i := acked + 1; i <= n; i++ {
		if _, err := fmt.Fprintf(c, `{"eventType":"audit_violation","message":"%d"}`+"\n", i-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := c.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || answer.Ack == nil {
			t.Fatalf("%+v, %v", answer, err)
		}
		acked = answer.Ack.Through
	}
	if acked != n {
		t.Errorf("%d is acknowledged of %d", acked, n)
	}
	r.waitFor(t, "all is delivered", isEmpty)
	far.mu.Lock()
	defer far.mu.Unlock()
	for i := range n {
		if times := far.got[strconv.Itoa(i)]; times != 1 {
			t.Errorf("record %d came %d times", i, times)
		}
	}
}

// TestFaultQuota has a far end that is away until the queue is full.
func TestFaultQuota(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	r := p.start(t, "--queue-max-bytes", "4MiB", "--tenant-max-bytes", "4MiB", "--max-line-bytes", "16KiB")
	c, err := client.New(client.Config{URL: "unix://" + p.socket, Producer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1500 // 6 MiB
	sent := make(chan error, 1)
	go func() {
		var all error
		for i := range n {
			record := &decision.Record{EventType: "audit_violation", Message: strconv.Itoa(i), Details: json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`)}
			all = errors.Join(all, c.Send(context.WithoutCancel(t.Context()), record))
		}
		sent <- all
	}()
	for !strings.Contains(r.metrics(t), "scanyard_exporter_paused_connections 1") {
		select {
		case err := <-sent:
			t.Fatalf("the producer was not stopped: %v", err)
		case <-time.After(20 * time.Millisecond): // until the next look
		}
	}
	if v := r.queue(t); v.Records == 0 || v.Records >= 1024 { // 4 KiB each
		t.Errorf("%d records are in a queue that may hold 4 MiB", v.Records)
	}
	far.answer(http.StatusOK)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	r.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(n); lost > 0 {
		t.Errorf("%d of %d are lost", lost, n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
