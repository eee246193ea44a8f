// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
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

// Client sends records to the socket of an exporter. Its methods may be called by many goroutines, and on a nil Client, which does nothing.
type Client struct {
	path    string
	config  Config
	session string
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the connections' goroutine has ended
	wake    chan struct{} // there is something to send

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
	line     []byte // with its newline
	done     func(error)
	rejected *RejectedError
	retry    bool
}

// Dial starts a client of the exporter at url, such as unix:///run/scanyard/exporter/exporter.sock. It does not wait for a connection:
// an exporter that starts later finds what was logged so far. The empty url gives a nil Client.
func Dial(url string, config Config) (*Client, error) {
	if url == "" {
		return nil, nil //nolint:nilnil // no exporter: all methods of a nil Client do nothing
	}
	path, ok := strings.CutPrefix(url, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("%q is no address of an exporter's socket: write unix:///path/to/exporter.sock", url)
	}
	if config.MaxRecords == 0 {
		config.MaxRecords = defaultMaxRecords
	}
	if config.MaxBytes == 0 {
		config.MaxBytes = defaultMaxBytes
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the connections live until Close
	c := &Client{
		path: path, config: config, session: RandomID(), cancel: cancel, ended: make(chan struct{}), wake: make(chan struct{}, 1),
		next: 1, space: make(chan struct{}), stats: Stats{Dropped: map[string]uint64{}},
	}
	go c.run(ctx)
	return c, nil
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
	named := *r
	if named.DecisionID == "" {
		named.DecisionID = RandomID()
	}
	return Append(nil, &named)
}

// Log hands over a record and never blocks. It is false where the record was dropped: the buffer was full, or the record is invalid.
func (c *Client) Log(r *Record) bool {
	if c == nil {
		return true
	}
	return c.log(r)
}

func (c *Client) log(r *Record) bool {
	line, err := Encode(r)
	if err != nil {
		c.drop("invalid")
		return false
	}
	if !c.add(&entry{line: append(line, '\n')}) {
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
		line, err := Encode(r)
		if err != nil {
			return err
		}
		e := &entry{line: append(line, '\n'), done: func(err error) { answers <- err }}
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
		answered := c.connect(ctx)
		if answered {
			backoff = firstBackoff
		}
		timer := time.NewTimer(mathrand.N(backoff) + time.Millisecond) //nolint:gosec // jitter is no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connect serves one connection to its end; true where the exporter answered anything but an error.
func (c *Client) connect(ctx context.Context) (answered bool) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", c.path)
	if err != nil {
		return false
	}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(inner, func() { _ = conn.Close() }) // ends both directions; the error tells nothing more
	defer stop()
	replies := make(chan bool)
	go func() {
		answered := c.read(conn)
		cancel()
		replies <- answered
	}()
	c.setConnected(true)
	c.write(inner, conn)
	cancel()
	answered = <-replies
	c.setConnected(false)
	return answered
}

func (c *Client) setConnected(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = connected
}

// write greets the exporter and sends all that is not acknowledged, then what comes.
func (c *Client) write(ctx context.Context, conn net.Conn) {
	c.mu.Lock()
	sent := c.next - 1
	if len(c.window) > 0 {
		sent = c.window[0].number - 1
	}
	c.mu.Unlock()
	hello, err := json.Marshal(map[string]any{"$hello": map[string]any{"protocol": 1, "session": c.session, "producer": c.config.Producer, "first": sent + 1}})
	if err != nil {
		return
	}
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return
	}
	for {
		for _, e := range c.after(sent) {
			if _, err := conn.Write(e.line); err != nil {
				return
			}
			sent = e.number
		}
		delay := c.retryTimer()
		select {
		case <-c.wake:
		case <-delay:
			c.renumber()
		case <-ctx.Done():
			return
		}
	}
}

// after gives the entries with higher numbers than sent.
func (c *Client) after(sent uint64) []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.window {
		if e.number > sent {
			return append([]*entry(nil), c.window[i:]...)
		}
	}
	return nil
}

func (c *Client) retryTimer() <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.delayed) == 0 {
		return nil
	}
	return time.After(quotaDelay)
}

// renumber puts what met a full quota at the end.
func (c *Client) renumber() {
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
func (c *Client) read(conn net.Conn) (answered bool) {
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
			c.acknowledge(r.Welcome.Through)
		case r.Ack != nil:
			c.acknowledge(r.Ack.Through)
		case r.Reject != nil:
			c.reject(r.Reject.Line, &RejectedError{Code: r.Reject.Code, Message: r.Reject.Message}, r.Reject.Retry)
		case r.Bye != nil:
			c.acknowledge(r.Bye.Through)
			return answered
		case r.Error != nil:
			return answered
		}
	}
	return answered
}

func (c *Client) reject(number uint64, rejected *RejectedError, retry bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.window) == 0 || number < c.window[0].number || number-c.window[0].number >= uint64(len(c.window)) {
		return
	}
	e := c.window[number-c.window[0].number] // numbers in the window have no gaps
	e.rejected, e.retry = rejected, retry
}

// acknowledge takes what the exporter has out of the window.
func (c *Client) acknowledge(through uint64) {
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
		c.signal() // the writer starts its timer
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
