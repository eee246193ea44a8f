// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The streams.
const (
	Stream     = "SCANYARD_REGISTRY"
	DeadStream = "SCANYARD_REGISTRY_DEAD"
)

const (
	subjectRoot    = "scanyard.registry.v1"
	subjectWork    = subjectRoot + ".work"
	subjectDead    = subjectRoot + ".dead"
	subjectDone    = subjectRoot + ".done"
	subjectControl = subjectRoot + ".ctl"
	subjectWorker  = subjectRoot + ".worker"

	headerSchema     = "Scanyard-Schema"
	headerStep       = "Scanyard-Step"
	headerNamespace  = "Scanyard-Namespace"
	headerJob        = "Scanyard-Job-Uid"
	headerTrace      = "traceparent"
	headerDeadReason = "Scanyard-Dead-Reason"

	maxMessages    = 10_000
	maxMessageSize = 64 << 10
	duplicates     = 10 * time.Minute
	deadAge        = 7 * 24 * time.Hour

	ackWait    = 60 * time.Second
	maxDeliver = 10

	apiTimeout   = 10 * time.Second
	maxReconnect = 30 * time.Second
)

// Options say how a server of NATS is reached.
type Options struct {
	// URLs are all tried.
	URLs []string
	// User and Password, or CredentialsFile.
	User, Password, CredentialsFile string
	// TLS is that of the connection; nil: without, which only an external server may want.
	TLS *tls.Config
	// Name is shown by the server.
	Name string
	// External: streams are kept in files, on Replicas nodes.
	External bool
	Replicas int
	// Changed is told of each change of the connection.
	Changed func(connected bool, err error)
	// AckWait is how long a message is a worker's without a word of it, MaxDeliver how often a message is delivered; 0: 60 s, and 10.
	AckWait    time.Duration
	MaxDeliver int
}

// Queue is a connection. Its methods may be used by several goroutines.
type Queue struct {
	options Options
	conn    *nats.Conn
	js      jetstream.JetStream
}

// MismatchError is a stream or consumer that has other settings than ours.
type MismatchError struct{ Stream, Detail string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("stream %s has other settings (%s): delete it, or name another server", e.Stream, e.Detail)
}

// Connect connects, and goes on trying after the first time until Close.
func Connect(o Options) (*Queue, error) {
	if o.AckWait == 0 {
		o.AckWait, o.MaxDeliver = ackWait, maxDeliver
	}
	changed := o.Changed
	if changed == nil {
		changed = func(bool, error) {}
	}
	options := []nats.Option{
		nats.Name(o.Name), nats.MaxReconnects(-1), nats.Timeout(apiTimeout),
		nats.CustomReconnectDelay(func(attempts int) time.Duration { return min(time.Second<<min(attempts, 5), maxReconnect) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { changed(false, err) }),
		nats.ReconnectHandler(func(*nats.Conn) { changed(true, nil) }),
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS))
	}
	if o.User != "" {
		options = append(options, nats.UserInfo(o.User, o.Password))
	}
	if o.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(o.CredentialsFile))
	}
	conn, err := nats.Connect(strings.Join(o.URLs, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the queue: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use the queue: %w", err)
	}
	return &Queue{options: o, conn: conn, js: js}, nil
}

// Close ends the connection.
func (q *Queue) Close() { q.conn.Close() }

// Connected tells whether the server answers.
func (q *Queue) Connected() bool { return q.conn.IsConnected() }

func (q *Queue) work() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: Stream, Subjects: []string{subjectWork + ".>"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: maxMessages, MaxMsgSize: maxMessageSize, Duplicates: duplicates, Storage: q.storage(), Replicas: q.replicas(),
	}
}

func (q *Queue) dead() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: DeadStream, Subjects: []string{subjectDead + ".>"}, Retention: jetstream.LimitsPolicy, MaxAge: deadAge, MaxMsgs: maxMessages,
		Storage: q.storage(), Replicas: q.replicas(),
	}
}

func (q *Queue) storage() jetstream.StorageType {
	if q.options.External {
		return jetstream.FileStorage
	}
	return jetstream.MemoryStorage
}

func (q *Queue) replicas() int {
	if q.options.External {
		return max(q.options.Replicas, 1)
	}
	return 1
}

// Ensure makes the streams. A *MismatchError tells of one that is there with other settings.
func (q *Queue) Ensure(ctx context.Context) error {
	for _, want := range []jetstream.StreamConfig{q.work(), q.dead()} {
		stream, err := q.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = q.js.Stream(ctx, want.Name)
		}
		if err != nil {
			return fmt.Errorf("make stream %s: %w", want.Name, err)
		}
		if detail := differs(want, stream.CachedInfo().Config); detail != "" {
			return &MismatchError{want.Name, detail}
		}
	}
	return nil
}

// differs names the first setting that is another one.
func differs(want, got jetstream.StreamConfig) string {
	for _, s := range []struct {
		name      string
		want, got any
	}{
		{"subjects", strings.Join(want.Subjects, " "), strings.Join(got.Subjects, " ")},
		{"retention", want.Retention, got.Retention},
		{"discard", want.Discard, got.Discard},
		{"storage", want.Storage, got.Storage},
		{"replicas", want.Replicas, got.Replicas},
		{"max messages", want.MaxMsgs, got.MaxMsgs},
		{"max age", want.MaxAge, got.MaxAge},
	} {
		if s.want != s.got {
			return fmt.Sprintf("%s is %v, not %v", s.name, s.got, s.want)
		}
	}
	return ""
}

func subjectOf(step Step, adapter string) string {
	return subjectWork + "." + tokens[step] + "." + adapter
}

func consumerOf(step Step, adapter string) string { return tokens[step] + "-" + adapter }

// Window makes the consumer of a step and an adapter, or changes how many of its messages are in flight at most.
func (q *Queue) Window(ctx context.Context, step Step, adapter string, window int) error {
	_, err := q.js.CreateOrUpdateConsumer(ctx, Stream, jetstream.ConsumerConfig{
		Durable: consumerOf(step, adapter), FilterSubject: subjectOf(step, adapter), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: q.options.AckWait, MaxDeliver: q.options.MaxDeliver, MaxAckPending: max(window, 1),
	})
	if err != nil {
		return fmt.Errorf("make the consumer of %s: %w", consumerOf(step, adapter), err)
	}
	return nil
}

// Put gives a message to a worker. A second one of the same ID changes nothing.
func (q *Queue) Put(ctx context.Context, m Message) error {
	m.Schema = schema
	if err := m.check(); err != nil {
		return fmt.Errorf("put work: %w", err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("put work: %w", err)
	}
	message := nats.NewMsg(subjectOf(m.Step, m.Adapter))
	message.Data = data
	message.Header.Set(headerSchema, "1")
	message.Header.Set(headerStep, string(m.Step))
	message.Header.Set(headerNamespace, m.Namespace)
	if m.Job != nil {
		message.Header.Set(headerJob, m.Job.UID)
	}
	if m.TraceParent != "" {
		message.Header.Set(headerTrace, m.TraceParent)
	}
	if _, err := q.js.PublishMsg(ctx, message, jetstream.WithMsgID(m.ID)); err != nil {
		return fmt.Errorf("put work: %w", err)
	}
	return nil
}

// Waiting counts messages of a step that nobody has taken.
func (q *Queue) Waiting(ctx context.Context, step Step, adapter string) (waiting, inFlight int, err error) {
	consumer, err := q.js.Consumer(ctx, Stream, consumerOf(step, adapter))
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the consumer of %s: %w", consumerOf(step, adapter), err)
	}
	info := consumer.CachedInfo()
	return int(info.NumPending), info.NumAckPending, nil
}
