// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of what a client holds that is not acknowledged, where its Config names none.
const (
	defaultMaxRecords = 1024
	defaultMaxBytes   = 4 << 20
)

// How long a client waits before it dials again, and before it sends again what met a full quota.
const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	quotaDelay   = time.Second
	dialTimeout  = 5 * time.Second
	maxReplyLine = 64 << 10
)

// Transport carries lines to a far end.
type Transport interface {
	// Serve serves one connection to its end: it sends the lines of the window, and tells the window what became of them.
	// It is true where the far end took something, so that the next connection is made soon.
	Serve(ctx context.Context, w *Window) bool
}

// ErrClosed is the error of records that were not acknowledged when the client ended.
var ErrClosed = errors.New("the client is closed")

// Config is what a client may be told. The zero value works.
type Config struct {
	// Producer names the program, for people.
	Producer string
	// MaxRecords and MaxBytes bound what is not acknowledged; 0: 1,024 records and 4 MiB.
	MaxRecords int
	MaxBytes   int
}

// Stats counts what became of records.
type Stats struct {
	Logged, Acknowledged, Rejected uint64
	// Dropped counts the records that were given up, by reason: buffer, invalid, closed.
	Dropped map[string]uint64
	// Waiting counts the records that are not acknowledged yet.
	Waiting   int
	Connected bool
}

// RejectedError is a record that the exporter refused.
type RejectedError struct {
	Code    string
	Message string
}

// Error gives the exporter's words.
func (e *RejectedError) Error() string { return e.Code + ": " + e.Message }

// Client sends records to an exporter. Its methods may be called by many goroutines, and on a nil Client, which does nothing.
type Client struct {
	transport Transport
	config    Config
	session   string
	cancel    context.CancelFunc
	ended     chan struct{} // closed when the connections' goroutine has ended
	wake      chan struct{} // there is something to send

	mu        sync.Mutex
	window    []*entry // not acknowledged, in the order of their numbers
	delayed   []*entry // met a full quota, and wait for a new number
	bytes     int
	next      uint64 // number of the next record
	closed    bool
	connected bool
	stats     Stats
	space     chan struct{} // closed and made anew when the window shrinks
}

// entry is one line on its way.
type entry struct {
	number   uint64
	id       string
	line     []byte // with its newline
	done     func(error)
	rejected *RejectedError
	retry    bool
}

// Dial starts a client of the exporter at url, such as unix:///run/scanyard/exporter/exporter.sock. It does not wait for a connection:
// an exporter that starts later finds what was logged so far. The empty url gives a nil Client.
func Dial(url string, config Config) (*Client, error) {
	if url == "" {
		return nil, nil // no exporter: all methods of a nil Client do nothing
	}
	path, ok := strings.CutPrefix(url, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("%q is not an address of an exporter's socket: write unix:///path/to/exporter.sock", url)
	}
	return New(&socket{path: path}, config), nil
}

// New starts a client that sends by a transport.
func New(transport Transport, config Config) *Client {
	if config.MaxRecords == 0 {
		config.MaxRecords = defaultMaxRecords
	}
	if config.MaxBytes == 0 {
		config.MaxBytes = defaultMaxBytes
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the connections live until Close
	c := &Client{
		transport: transport, config: config, session: RandomID(), cancel: cancel, ended: make(chan struct{}), wake: make(chan struct{}, 1),
		next: 1, space: make(chan struct{}), stats: Stats{Dropped: map[string]uint64{}},
	}
	go c.run(ctx)
	return c
}

// RandomID gives a random UUID.
func RandomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Encode gives the line of a record, with a decisionId, so that a record which is sent twice keeps its name.
func Encode(r *Record) ([]byte, error) {
	line, _, err := encode(r)
	return line, err
}

func encode(r *Record) (line []byte, id string, err error) {
	named := *r
	if named.DecisionID == "" {
		named.DecisionID = RandomID()
	}
	line, err = Append(nil, &named)
	return line, named.DecisionID, err
}

// Log hands over a record and never blocks. It is false where the record was dropped: the buffer was full, or the record is invalid.
func (c *Client) Log(r *Record) bool {
	if c == nil {
		return true
	}
	return c.log(r)
}

func (c *Client) log(r *Record) bool {
	line, id, err := encode(r)
	if err != nil {
		c.drop("invalid")
		return false
	}
	if !c.add(&entry{id: id, line: append(line, '\n')}) {
		c.drop("buffer")
		return false
	}
	return true
}

// Send hands over records and waits until each is acknowledged, or ctx ends. An error may leave some of them acknowledged.
func (c *Client) Send(ctx context.Context, records ...*Record) error {
	if c == nil {
		return nil
	}
	answers := make(chan error, len(records))
	for _, r := range records {
		line, id, err := encode(r)
		if err != nil {
			return err
		}
		e := &entry{id: id, line: append(line, '\n'), done: func(err error) { answers <- err }}
		for !c.add(e) {
			if err := c.waitForSpace(ctx); err != nil {
				return err
			}
		}
	}
	var all []error
	for range records {
		select {
		case err := <-answers:
			all = append(all, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(all...)
}

// Close waits until all is acknowledged or ctx ends, then ends the connection. What is left then is counted as dropped.
func (c *Client) Close(ctx context.Context) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for c.waiting() > 0 && ctx.Err() == nil {
		if err := c.waitForChange(ctx); err != nil {
			break
		}
	}
	c.cancel()
	<-c.ended
	c.mu.Lock()
	left := slices.Concat(c.window, c.delayed)
	c.window, c.delayed, c.bytes = nil, nil, 0
	c.stats.Dropped["closed"] += uint64(len(left))
	c.mu.Unlock()
	for _, e := range left {
		e.finish(ErrClosed)
	}
	if len(left) > 0 {
		return fmt.Errorf("%d records were not acknowledged: %w", len(left), context.Cause(ctx))
	}
	return nil
}

// Stats tells what became of records so far.
func (c *Client) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Dropped = maps.Clone(c.stats.Dropped)
	s.Waiting, s.Connected = len(c.window)+len(c.delayed), c.connected
	return s
}

func (e *entry) finish(err error) {
	if e.done != nil {
		e.done(err)
	}
}

func (c *Client) drop(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Dropped[reason]++
}

func (c *Client) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.window) + len(c.delayed)
}

// add gives a line its number, where there is room.
func (c *Client) add(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := len(c.window) + len(c.delayed)
	if c.closed || held >= c.config.MaxRecords || (held > 0 && c.bytes+len(e.line) > c.config.MaxBytes) {
		return false
	}
	e.number = c.next
	c.next++
	c.bytes += len(e.line)
	c.window = append(c.window, e)
	c.stats.Logged++
	c.signal()
	return true
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Client) waitForSpace(ctx context.Context) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return c.waitForChange(ctx)
}

// waitForChange returns when the window has shrunk. A change between the caller's look and this call is seen by the short timer.
func (c *Client) waitForChange(ctx context.Context) error {
	c.mu.Lock()
	space := c.space
	c.mu.Unlock()
	timer := time.NewTimer(firstBackoff)
	defer timer.Stop()
	select {
	case <-space:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// run keeps a connection until the client is closed.
func (c *Client) run(ctx context.Context) {
	defer close(c.ended)
	backoff := firstBackoff
	for ctx.Err() == nil {
		if c.transport.Serve(ctx, &Window{c}) {
			backoff = firstBackoff
		}
		timer := time.NewTimer(mathrand.N(backoff) + time.Millisecond) //nolint:gosec // jitter is not a secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}
