// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// early is a connection whose far end answers hello before another line is written.
type early struct {
	net.Conn

	hello   func()
	written strings.Builder
	end     func()
}

// Write notes what is written.
func (e *early) Write(b []byte) (int, error) {
	if e.hello != nil {
		e.hello()
		e.hello = nil
		return len(b), nil
	}
	e.written.Write(b)
	if strings.Contains(string(b), "m7") {
		e.end()
	}
	return len(b), nil
}

// idle is a transport that does nothing.
type idle struct{}

// Serve waits for the end.
func (idle) Serve(ctx context.Context, _ *Window) bool {
	<-ctx.Done()
	return false
}

// TestLinesKeepTheirNumbers has an exporter that holds more of the session than the client knows: it died before it could say so.
func TestLinesKeepTheirNumbers(t *testing.T) {
	c := New(idle{}, Config{})
	for i := range 7 {
		if !c.Log(&Record{EventType: "a", Message: fmt.Sprint("m", i+1)}) {
			t.Fatal("a record was not taken")
		}
	}
	w := &Window{c}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn := &early{hello: func() { w.Acknowledge(3) }, end: cancel}
	write(ctx, conn, w)
	lines := strings.Split(strings.TrimSuffix(conn.written.String(), "\n"), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines were written", len(lines))
	}
	for i, line := range lines {
		if want := fmt.Sprintf(`"message":"m%d"`, i+1); i < 3 && line != "" || i >= 3 && !strings.Contains(line, want) {
			t.Errorf("line %d is %s", i+1, line)
		}
	}
	w.Acknowledge(7)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
