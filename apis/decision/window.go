// SPDX-License-Identifier: Apache-2.0

package decision

import "time"

// Window is what a transport sees of a client: the lines that are not acknowledged, by rising numbers without gaps.
type Window struct{ c *Client }

// Line is one record on its way.
type Line struct {
	Number uint64
	// ID is the decisionId of the record.
	ID string
	// Text ends in a newline.
	Text []byte
}

// Session names the client over all its connections.
func (w *Window) Session() string { return w.c.session }

// Producer names the program.
func (w *Window) Producer() string { return w.c.config.Producer }

// Connected notes whether there is a connection.
func (w *Window) Connected(connected bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.connected = connected
}

// First is the lowest number that is not acknowledged.
func (w *Window) First() uint64 {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if len(w.c.window) > 0 {
		return w.c.window[0].number
	}
	return w.c.next
}

// After gives the lines with higher numbers than sent.
func (w *Window) After(sent uint64) []Line {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	var lines []Line
	for _, e := range w.c.window {
		if e.number > sent {
			lines = append(lines, Line{Number: e.number, ID: e.id, Text: e.line})
		}
	}
	return lines
}

// Wake is sent to when there may be something to send.
func (w *Window) Wake() <-chan struct{} { return w.c.wake }

// RetryTimer fires when lines that met a full quota are to be sent again; nil where there are none.
func (w *Window) RetryTimer() <-chan time.Time {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if len(w.c.delayed) == 0 {
		return nil
	}
	return time.After(quotaDelay)
}

// Renumber puts what met a full quota at the end.
func (w *Window) Renumber() {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.delayed {
		e.number, e.rejected, e.retry = c.next, nil, false
		c.next++
		c.window = append(c.window, e)
	}
	c.delayed = nil
	c.signal()
}

// Reject notes that the far end refuses a line, for ever or for now. The line is done when its number is acknowledged.
func (w *Window) Reject(number uint64, rejected *RejectedError, retry bool) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.window) == 0 || number < c.window[0].number || number-c.window[0].number >= uint64(len(c.window)) {
		return
	}
	e := c.window[number-c.window[0].number] // numbers in the window have no gaps
	e.rejected, e.retry = rejected, retry
}

// Acknowledge takes out of the window what the far end has.
func (w *Window) Acknowledge(through uint64) {
	c := w.c
	var done []*entry
	c.mu.Lock()
	for len(c.window) > 0 && c.window[0].number <= through {
		e := c.window[0]
		c.window = c.window[1:]
		if e.retry {
			c.delayed = append(c.delayed, e)
			continue
		}
		c.bytes -= len(e.line)
		if e.rejected != nil {
			c.stats.Rejected++
		} else {
			c.stats.Acknowledged++
		}
		done = append(done, e)
	}
	if len(c.delayed) > 0 {
		c.signal() // the transport starts its timer
	}
	close(c.space)
	c.space = make(chan struct{})
	c.mu.Unlock()
	for _, e := range done {
		if e.rejected != nil {
			e.finish(e.rejected)
			continue
		}
		e.finish(nil)
	}
}
