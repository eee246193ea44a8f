// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
)

// socket is the transport by the unix socket of an exporter.
type socket struct{ path string }

// Serve serves one connection.
func (s *socket) Serve(ctx context.Context, w *Window) (answered bool) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", s.path)
	if err != nil {
		return false
	}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(inner, func() { _ = conn.Close() }) // ends both directions; the error tells nothing more
	defer stop()
	replies := make(chan bool)
	go func() {
		answered := read(conn, w)
		cancel()
		replies <- answered
	}()
	w.Connected(true)
	write(inner, conn, w)
	cancel()
	answered = <-replies
	w.Connected(false)
	return answered
}

// write greets the exporter and sends all that is not acknowledged, then what comes.
func write(ctx context.Context, conn net.Conn, w *Window) {
	first := w.First()
	hello, err := json.Marshal(map[string]any{"$hello": map[string]any{"protocol": 1, "session": w.Session(), "producer": w.Producer(), "first": first}})
	if err != nil {
		return
	}
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return
	}
	for sent := first - 1; ; {
		for _, line := range w.After(sent) {
			// The exporter counts lines. What its welcome has acknowledged is left out, and a blank line stands for it.
			blank := bytes.Repeat([]byte("\n"), int(line.Number-sent-1))
			if _, err := conn.Write(append(blank, line.Text...)); err != nil {
				return
			}
			sent = line.Number
		}
		delay := w.RetryTimer()
		select {
		case <-w.Wake():
		case <-delay:
			w.Renumber()
		case <-ctx.Done():
			return
		}
	}
}

// reply is a line of the exporter.
type reply struct {
	Welcome, Ack, Bye *struct{ Through uint64 }
	Reject            *struct {
		Line          uint64
		Code, Message string
		Retry         bool
	}
	Error *struct{ Code, Message string }
}

// read takes the exporter's lines until the connection ends.
func read(conn net.Conn, w *Window) (answered bool) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxReplyLine)
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return answered // no exporter speaks so
		}
		answered = answered || r.Error == nil
		switch {
		case r.Welcome != nil:
			w.Acknowledge(r.Welcome.Through)
		case r.Ack != nil:
			w.Acknowledge(r.Ack.Through)
		case r.Reject != nil:
			w.Reject(r.Reject.Line, &RejectedError{Code: r.Reject.Code, Message: r.Reject.Message}, r.Reject.Retry)
		case r.Bye != nil:
			w.Acknowledge(r.Bye.Through)
			return answered
		case r.Error != nil:
			return answered
		}
	}
	return answered
}
