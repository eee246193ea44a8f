// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// takeWait is how long one request for a message waits at the server.
const takeWait = 20 * time.Second

// Delivery is a message that this worker has taken.
type Delivery struct {
	Message

	// Redelivered: somebody has taken it before, and has not spoken since.
	Redelivered bool
	message     jetstream.Msg
}

// Take waits for a message of a step. One that cannot be read goes to the dead letters, and Take goes on. A consumer that is not there
// yet is waited for.
func (q *Queue) Take(ctx context.Context, step Step, adapter string) (*Delivery, error) {
	for {
		d, err := q.takeOne(ctx, step, adapter)
		if d != nil || err != nil {
			return d, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (q *Queue) takeOne(ctx context.Context, step Step, adapter string) (*Delivery, error) {
	consumer, err := q.js.Consumer(ctx, Stream, consumerOf(step, adapter))
	if err != nil {
		return nil, fmt.Errorf("ask for the consumer of %s: %w", consumerOf(step, adapter), err)
	}
	within, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(within))
	if err != nil {
		return nil, fmt.Errorf("ask for work: %w", err)
	}
	message, found := <-batch.Messages()
	if !found {
		err := batch.Error()
		if err == nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil, nil // there was nothing to do
		}
		return nil, fmt.Errorf("take work: %w", err)
	}
	decoded, err := decode(message.Data())
	if err != nil {
		return nil, q.bury(ctx, message, err.Error())
	}
	decoded.TraceParent = message.Headers().Get(headerTrace)
	metadata, err := message.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read what the queue says of a message: %w", err)
	}
	return &Delivery{Message: decoded, Redelivered: metadata.NumDelivered > 1, message: message}, nil
}

// bury moves a message to the dead letters. It is terminated only after the dead letter is stored. Who is ending ends it, too.
func (q *Queue) bury(ctx context.Context, message jetstream.Msg, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
	defer cancel()
	metadata, err := message.Metadata()
	if err != nil {
		return fmt.Errorf("read what the queue says of a message: %w", err)
	}
	id := deadID(metadata.Sequence.Stream, metadata.Timestamp)
	if err := q.putDead(ctx, id, message.Subject(), message.Headers(), message.Data(), reason); err != nil {
		return err
	}
	if err := message.TermWithReason(reason); err != nil {
		return fmt.Errorf("end a message: %w", err)
	}
	return nil
}

// deadID names a message of the work queue, so that the one that is buried twice is one dead letter.
func deadID(sequence uint64, stored time.Time) string {
	return fmt.Sprintf("%d-%d", sequence, stored.UnixNano())
}

func (q *Queue) putDead(ctx context.Context, id, subject string, header nats.Header, data []byte, reason string) error {
	dead := nats.NewMsg(subjectDead + subject[len(subjectWork):])
	dead.Data = data
	for _, name := range []string{headerSchema, headerStep, headerNamespace, headerJob, headerTrace} {
		if value := header.Get(name); value != "" {
			dead.Header.Set(name, value)
		}
	}
	dead.Header.Set(headerDeadReason, reason)
	if _, err := q.js.PublishMsg(ctx, dead, jetstream.WithMsgID(id)); err != nil {
		return fmt.Errorf("put a message to the dead letters: %w", err)
	}
	return nil
}

// Done ends the message: whatever becomes of the item stands in its state.
func (d *Delivery) Done(ctx context.Context) error {
	if err := d.message.DoubleAck(ctx); err != nil {
		return fmt.Errorf("acknowledge work: %w", err)
	}
	return nil
}

// InProgress tells the queue that the worker lives.
func (d *Delivery) InProgress() error {
	if err := d.message.InProgress(); err != nil {
		return fmt.Errorf("tell the queue of progress: %w", err)
	}
	return nil
}

// GiveBack has the message delivered to another worker at once: what this one has not begun when it ends.
func (d *Delivery) GiveBack() error {
	if err := d.message.Nak(); err != nil {
		return fmt.Errorf("give work back: %w", err)
	}
	return nil
}
