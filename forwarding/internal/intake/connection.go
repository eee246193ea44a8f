// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"crypto/sha1" //nolint:gosec // RFC 9562 makes UUIDs of version 5 with it
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	flushBytes  = 256 << 10
	maxSession  = 128
	maxProducer = 253             // bytes
	closingTime = 5 * time.Second // for a client that does not read its last lines
)

// connection is one client.
type connection struct {
	o        Options
	conn     *net.UnixConn
	lines    *lines
	metadata map[string]string

	sessions *sessions

	// Of the reader's goroutine:
	end     context.CancelFunc
	release func() // gives the session to the next connection
	greeted bool
	session string
	stored  uint64 // through which the session's records are in the queue already
	entries []queue.Entry
	size    int64

	mu       sync.Mutex
	seen     uint64 // number of the last record that was read
	through  uint64 // number through which everything is done
	buffered bool   // the reader has a line that is neither done nor at the writer
	inFlight int    // submissions at the writer
	unsynced int64
	out      []message // but acks
	rejects  int       // in out
	acked    uint64    // through of the last ack that was sent
	broken   bool      // too many rejects wait
	finished bool      // nothing comes after what is in out
	wake     chan struct{}
	progress chan struct{} // closed and made anew when something is synced
}

func newConnection(o Options, conn *net.UnixConn, p peer, s *sessions) *connection {
	return &connection{
		o: o, conn: conn, lines: newLines(conn, o.MaxLineBytes),
		metadata: map[string]string{"uid": strconv.FormatUint(uint64(p.uid), 10), "pid": strconv.Itoa(int(p.pid))},
		sessions: s, release: func() {}, wake: make(chan struct{}, 1), progress: make(chan struct{}),
	}
}

// run serves the connection to its end.
func (c *connection) run(ctx context.Context) {
	ctx, c.end = context.WithCancel(ctx)
	defer c.end()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }) // reading ends; what was read is finished
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	last := c.read(ctx)
	c.flush(false)
	c.waitUntilSynced()
	c.release()
	c.mu.Lock()
	if last == nil && ctx.Err() != nil {
		last = &message{Bye: &through{c.through}}
	}
	if last != nil {
		c.out = append(c.out, *last)
	}
	c.finished = true
	c.mu.Unlock()
	c.signal()
	_ = c.conn.SetWriteDeadline(c.o.Now().Add(closingTime)) // a connection that is gone has no deadline, and fails by itself
	<-written
	_ = c.conn.Close() // everything was said
}

// read takes lines until the end, and gives the message that ends the connection, if there is one.
func (c *connection) read(ctx context.Context) *message {
	for ctx.Err() == nil {
		if !c.waitForWindow() {
			return &message{Error: &protocolError{Code: codeTooManyRejects, Message: fmt.Sprintf("%d rejects wait to be read", maxRejects)}}
		}
		line, ended, err := c.lines.next()
		tooLarge, isTooLarge := errors.AsType[*tooLargeError](err)
		switch {
		case errors.Is(err, errLineTooLong):
			return &message{Error: &protocolError{Code: codeLineTooLong, Message: fmt.Sprintf("a line has more than %d bytes", hopeless*c.o.MaxLineBytes)}}
		case isTooLarge:
			c.count()
			c.reject(codeTooLarge, tooLarge.Error(), false)
		case err != nil:
			return nil // the client is gone, or we are to stop
		case strings.HasPrefix(string(line[:min(3, len(line))]), `{"$`):
			if end := c.control(line); end != nil {
				return end
			}
		default:
			c.record(ctx, line, ended)
		}
		c.greeted = true
		if c.size >= flushBytes || !c.lines.pending() {
			c.flush(false)
		}
	}
	return nil
}

// control answers a control line. A message ends the connection.
func (c *connection) control(line []byte) *message {
	fail := func(code, text string, supported ...int) *message {
		return &message{Error: &protocolError{Code: code, Message: text, Supported: supported}}
	}
	var said control
	if err := json.Unmarshal(line, &said); err != nil {
		return fail(codeUnknownControl, "the control line is not understood: "+err.Error())
	}
	switch {
	case said.Ping != nil:
		c.flush(false)
		c.mu.Lock()
		c.out = append(c.out, message{Pong: &through{c.through}})
		c.mu.Unlock()
		c.signal()
		return nil
	case said.Hello == nil:
		return fail(codeUnknownControl, "the control line is not known: there are $hello and $ping")
	case c.greeted:
		return fail(codeUnknownControl, "$hello must be the first line")
	case said.Hello.Protocol != 1:
		return fail(codeUnsupportedProtocol, fmt.Sprintf("protocol %d is not supported", said.Hello.Protocol), 1)
	case said.Hello.Session != "" && !isSession(said.Hello.Session):
		return fail(codeUnknownControl, fmt.Sprintf("a session is 1 to %d of A-Z a-z 0-9 . _ : -", maxSession))
	case len(said.Hello.Producer) > maxProducer:
		return fail(codeUnknownControl, fmt.Sprintf("the name of a producer has at most %d bytes", maxProducer))
	}
	c.welcome(*said.Hello)
	return nil
}

func (c *connection) welcome(h hello) {
	first := max(h.First, 1)
	w := welcome{Protocol: 1, Through: first - 1, MaxLineBytes: c.o.MaxLineBytes, WindowBytes: windowBytes, Durable: c.o.Queue.Durable() && !c.o.Volatile}
	if h.Producer != "" {
		c.metadata[sink.MetadataProducer] = h.Producer
	}
	if h.Session != "" {
		c.session, c.release = h.Session, c.sessions.claim(h.Session, c.end)
		c.stored, _, _ = c.o.Queue.Session(h.Session)
		w.Through = c.stored
		if first > c.stored+1 {
			w.Gap = first - c.stored - 1
		}
	}
	c.mu.Lock()
	c.seen, c.through, c.acked = first-1, first-1, first-1
	c.out = append(c.out, message{Welcome: &w})
	c.mu.Unlock()
	c.signal()
}

func isSession(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:-", r) {
			return false
		}
	}
	return len(s) <= maxSession
}

// count gives the next line its number. Until the line is done no ack covers it.
func (c *connection) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	c.buffered = true
	return c.seen
}

func (c *connection) record(ctx context.Context, line []byte, ended bool) {
	number := c.count()
	if len(line) == 0 || number <= c.stored {
		c.settle()
		return
	}
	r, err := decision.Parse(line)
	if err != nil {
		if !ended {
			c.flush(true) // a producer that died in the middle of its line brings the line again under the same number
			c.reject(codeTruncated, "the stream ended inside of the record", false)
			return
		}
		c.reject(codeMalformed, err.Error(), false)
		return
	}
	tenant := c.o.Tenant
	if c.o.ByNamespace && r.ResourceNamespace != "" {
		tenant = r.ResourceNamespace
	}
	record := &queue.Record{ID: r.DecisionID, Time: c.o.Now(), Line: append([]byte(nil), line...), Metadata: c.metadata}
	if record.ID == "" {
		record.ID = c.id(number)
	}
	if !c.reserve(ctx, tenant, record.Size()) {
		return
	}
	c.entries = append(c.entries, queue.Entry{Tenant: tenant, Record: record})
	c.size += record.Size()
}

// namespace is that of event ids, in which a session and a number name a record.
var namespace = []byte{0x8f, 0x0c, 0x6f, 0x0e, 0x5a, 0x3b, 0x4e, 0x0e, 0x9b, 0x57, 0x1d, 0x6c, 0x2f, 0x4a, 0x7e, 0x31}

// id names a record that has no decisionId: the same at each repetition within a session.
func (c *connection) id(number uint64) string {
	if c.session == "" {
		return decision.RandomID()
	}
	h := sha1.New() //nolint:gosec // as RFC 9562 says
	h.Write(namespace)
	fmt.Fprintf(h, "%s/%d", c.session, number)
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80
	x := hex.EncodeToString(b)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// reserve takes room, waits for it, or rejects. False: the record is not taken.
func (c *connection) reserve(ctx context.Context, tenant string, size int64) bool {
	paused := false
	defer func() {
		if paused {
			c.o.Observe.Paused(-1)
			c.say(message{Resume: &struct{}{}})
		}
	}()
	for {
		space := c.o.Queue.Space()
		err := c.o.Queue.Reserve(tenant, size)
		if err == nil {
			return true
		}
		full, _ := errors.AsType[*queue.QuotaError](err)
		if c.o.RejectWhenFull || full == nil || c.o.ByNamespace && !full.Total {
			c.reject(codeQuotaReached, err.Error(), true)
			return false
		}
		if !paused {
			paused = true
			c.flush(true)
			c.o.Observe.Paused(1)
			c.say(message{Pause: &pause{Reason: codeQuotaReached, Tenant: tenant}})
		}
		select {
		case <-space:
		case <-ctx.Done():
			c.mu.Lock()
			c.seen-- // it was not taken: the client sends it again to the next one
			c.mu.Unlock()
			c.settle()
			return false
		}
	}
}

func (c *connection) say(m message) {
	c.mu.Lock()
	c.out = append(c.out, m)
	c.mu.Unlock()
	c.signal()
}

func (c *connection) reject(code, text string, retry bool) {
	c.o.Observe.Rejected(code)
	c.mu.Lock()
	c.out = append(c.out, message{Reject: &reject{Line: c.seen, Code: code, Message: text, Retry: retry}})
	c.rejects++
	c.broken = c.broken || c.rejects > maxRejects
	c.mu.Unlock()
	c.settle()
}

// settle says that the last line is done, and moves through where nothing is on its way.
func (c *connection) settle() {
	c.mu.Lock()
	c.buffered = len(c.entries) > 0
	if c.inFlight == 0 && !c.buffered {
		c.through = c.seen
	}
	c.mu.Unlock()
	c.signal()
}

// flush hands to the queue what was read. open: the last line that was counted is not done yet.
func (c *connection) flush(open bool) {
	if len(c.entries) == 0 {
		return
	}
	entries, size := c.entries, c.size
	c.entries, c.size = nil, 0
	c.mu.Lock()
	s := &queue.Submission{Entries: entries, Session: c.session, Through: c.seen}
	if open {
		s.Through--
	}
	c.buffered = open
	c.inFlight++
	c.unsynced += size
	c.mu.Unlock()
	s.Done = func(err error) { c.synced(s, size, err) }
	c.o.Queue.Submit(s)
}

// synced is called by the queue's writer, in the order of the submissions.
func (c *connection) synced(s *queue.Submission, size int64, err error) {
	c.mu.Lock()
	c.inFlight--
	c.unsynced -= size
	if err == nil {
		if c.through = s.Through; c.inFlight == 0 && !c.buffered {
			c.through = c.seen
		}
	}
	close(c.progress)
	c.progress = make(chan struct{})
	c.mu.Unlock()
	c.signal()
	if err == nil {
		for _, e := range s.Entries {
			c.o.Observe.Enqueued("socket", e.Tenant, 1)
		}
	}
}

// waitForWindow waits while too much is not yet synced; false where the client does not read its rejects.
func (c *connection) waitForWindow() bool {
	for {
		c.mu.Lock()
		progress, wait, broken := c.progress, c.unsynced > windowBytes, c.broken
		c.mu.Unlock()
		if broken {
			return false
		}
		if !wait {
			return true
		}
		<-progress
	}
}

func (c *connection) waitUntilSynced() {
	for {
		c.mu.Lock()
		progress, wait := c.progress, c.inFlight > 0
		c.mu.Unlock()
		if !wait {
			return
		}
		<-progress
	}
}

func (c *connection) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write says what there is to say. Acks are said last, and only the highest.
func (c *connection) write() {
	for {
		c.mu.Lock()
		out, ack, finished := c.out, c.through, c.finished
		c.out, c.rejects = nil, 0
		acked := c.acked
		c.acked = ack
		c.mu.Unlock()
		var text []byte
		var last []byte
		for i, m := range out {
			if finished && i == len(out)-1 && (m.Bye != nil || m.Error != nil) {
				last = encode(m)
				continue
			}
			text = append(text, encode(m)...)
		}
		if ack > acked {
			text = append(text, encode(message{Ack: &through{ack}})...)
		}
		text = append(text, last...)
		if len(text) > 0 {
			if _, err := c.conn.Write(text); err != nil {
				return // the client is gone; what it sent is finished all the same
			}
		}
		if finished {
			return
		}
		<-c.wake
	}
}
