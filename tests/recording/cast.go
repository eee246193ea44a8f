// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Cast is what was written to a terminal.
type Cast struct {
	Columns, Rows int
	Title         string
	Events        []Event
}

// Event is what was written at a time since the beginning.
type Event struct {
	At   time.Duration
	Text string
}

// header is the first line of an asciicast of version 2: https://docs.asciinema.org/manual/asciicast/v2/.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Title   string `json:"title,omitempty"`
}

// Write writes the asciicast.
func (c Cast) Write() ([]byte, error) {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(header{Version: 2, Width: c.Columns, Height: c.Rows, Title: c.Title}); err != nil {
		return nil, fmt.Errorf("write asciicast: %w", err)
	}
	for _, e := range c.Events {
		if err := lines.Encode([]any{json.Number(fmt.Sprintf("%.3f", e.At.Seconds())), "o", e.Text}); err != nil {
			return nil, fmt.Errorf("write asciicast: %w", err)
		}
	}
	return out.Bytes(), nil
}

// Read reads an asciicast of version 2.
func Read(text []byte) (Cast, error) {
	lines := json.NewDecoder(bufio.NewReader(bytes.NewReader(text)))
	var h header
	if err := lines.Decode(&h); err != nil || h.Version != 2 {
		return Cast{}, fmt.Errorf("read asciicast: the first line must be the header of version 2: %w", err)
	}
	c := Cast{Columns: h.Width, Rows: h.Height, Title: h.Title}
	for {
		var at float64
		var kind, said string
		err := lines.Decode(&[]any{&at, &kind, &said})
		switch {
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return Cast{}, fmt.Errorf("read asciicast: %w", err)
		case kind == "o":
			c.Events = append(c.Events, Event{time.Duration(at * float64(time.Second)), said})
		}
	}
}

// Hasten shortens each pause to the longest one, and joins what was written within the time of a frame.
func (c Cast) Hasten(longest, frame time.Duration) Cast {
	out := c
	out.Events = nil
	var last, now, began time.Duration
	for _, e := range c.Events {
		now += min(e.At-last, longest)
		last = e.At
		if n := len(out.Events); n > 0 && now-began < frame {
			out.Events[n-1].Text += e.Text
			continue
		}
		began = now
		out.Events = append(out.Events, Event{now, e.Text})
	}
	return out
}

// Replace replaces texts, such as folders of this machine.
func (c Cast) Replace(replace func(string) string) Cast {
	out := c
	out.Events = nil
	for _, e := range c.Events {
		out.Events = append(out.Events, Event{e.At, replace(e.Text)})
	}
	return out
}

// Until ends a recording before a text is written.
func (c Cast) Until(text string) (Cast, error) {
	out := c
	out.Events = nil
	for _, e := range c.Events {
		before, _, found := strings.Cut(e.Text, text)
		out.Events = append(out.Events, Event{e.At, before})
		if found {
			return out, nil
		}
	}
	return c, fmt.Errorf("%q is not in the recording", text)
}
