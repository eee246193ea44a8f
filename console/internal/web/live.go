// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

// Live sends parts of a page while the page is open, as server-sent events.
type Live struct {
	writer http.ResponseWriter
	flush  *http.ResponseController
	last   string
}

// Live begins a stream of events. It ends with the page; close ends it on our side.
func (q *Request) Live(w http.ResponseWriter) (live *Live, done func(), err error) {
	done, ok := q.bounds.open(q.Session.CSRF)
	if !ok {
		return nil, nil, &Problem{http.StatusTooManyRequests, "Too many live pages.", fmt.Sprintf("A session has at most %d.", maxLive), "Close some of them."}
	}
	if q.live != nil {
		end, told := done, q.live()
		done = func() { told(); end() }
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	live = &Live{writer: w, flush: http.NewResponseController(w)}
	if err := live.flush.Flush(); err != nil {
		done()
		return nil, nil, fmt.Errorf("begin events: %w", err)
	}
	return live, done, nil
}

// Part sends a part of a page, if it has changed.
func (l *Live) Part(t *template.Template, name string, data any) error {
	var part bytes.Buffer
	if err := t.ExecuteTemplate(&part, name, data); err != nil {
		return fmt.Errorf("render part: %w", err)
	}
	text := string(bytes.Map(shown, part.Bytes()))
	if text == l.last {
		return nil
	}
	l.last = text
	return l.Send("part", l.last)
}

// Send sends an event.
func (l *Live) Send(event, text string) error {
	var out strings.Builder
	out.WriteString("event: " + event + "\n")
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "")) {
		out.WriteString("data: " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if text == "" {
		out.WriteString("data:\n")
	}
	if _, err := l.writer.Write([]byte(out.String() + "\n")); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	if err := l.flush.Flush(); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}
