// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// deadReasonDelivered is the reason of messages that were delivered too often.
const deadReasonDelivered = "DeliveredTooOften"

// BuryDelivered moves what was delivered too often to the dead letters, as soon as the server tells of it, until ctx ends. Servers tell
// it once, and not to everybody: Sweep finds the rest. failed hears of errors.
func (q *Queue) BuryDelivered(ctx context.Context, failed func(error)) error {
	subscription, err := q.conn.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES."+Stream+".*", func(m *nats.Msg) {
		var advisory struct {
			Sequence uint64 `json:"stream_seq"`
		}
		err := json.Unmarshal(m.Data, &advisory)
		if err == nil {
			err = q.buryAt(ctx, advisory.Sequence)
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	})
	if err != nil {
		return fmt.Errorf("listen to the queue: %w", err)
	}
	<-ctx.Done()
	return subscription.Unsubscribe()
}

// buryAt moves one message of the work queue.
func (q *Queue) buryAt(ctx context.Context, sequence uint64) error {
	stream, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("ask for the stream: %w", err)
	}
	message, err := stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a message that was delivered too often: %w", err)
	}
	if err := q.putDead(ctx, deadID(message.Sequence, message.Time), message.Subject, message.Header, message.Data, deadReasonDelivered); err != nil {
		return err
	}
	if err := stream.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("delete a message that was delivered too often: %w", err)
	}
	return nil
}

// Sweep looks for messages that were delivered too often and of which the server's word was lost: those that were delivered and that
// nobody has any more. It says how many there were.
func (q *Queue) Sweep(ctx context.Context) (int, error) {
	buried := 0
	err := q.eachConsumer(ctx, func(info *jetstream.ConsumerInfo) error {
		last := info.AckFloor.Stream
		if info.NumAckPending == 0 {
			last = info.Delivered.Stream
		}
		sequences, err := q.sequences(ctx, info.Config.FilterSubject, 1)
		if err != nil {
			return err
		}
		for _, sequence := range sequences {
			if sequence > last {
				break
			}
			if err := q.buryAt(ctx, sequence); err != nil {
				return err
			}
			buried++
		}
		return nil
	})
	return buried, err
}

// PurgeWaiting deletes what nobody has taken: a new leader lets in anew.
func (q *Queue) PurgeWaiting(ctx context.Context) error {
	stream, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("ask for the stream: %w", err)
	}
	return q.eachConsumer(ctx, func(info *jetstream.ConsumerInfo) error {
		sequences, err := q.sequences(ctx, info.Config.FilterSubject, info.Delivered.Stream+1)
		if err != nil {
			return err
		}
		for _, sequence := range sequences {
			if err := stream.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
				return fmt.Errorf("delete a message: %w", err)
			}
		}
		return nil
	})
}

// InFlight counts the messages that workers have.
func (q *Queue) InFlight(ctx context.Context) (int, error) {
	count := 0
	err := q.eachConsumer(ctx, func(info *jetstream.ConsumerInfo) error {
		count += info.NumAckPending
		return nil
	})
	return count, err
}

func (q *Queue) eachConsumer(ctx context.Context, do func(*jetstream.ConsumerInfo) error) error {
	stream, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("ask for the stream: %w", err)
	}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if err := do(info); err != nil {
			return err
		}
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("list consumers: %w", err)
	}
	return nil
}

// sequences are those of the messages of a subject, from one on.
func (q *Queue) sequences(ctx context.Context, subject string, from uint64) ([]uint64, error) {
	stream, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return nil, fmt.Errorf("ask for the stream: %w", err)
	}
	var list []uint64
	for {
		message, err := stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look at the stream: %w", err)
		}
		list = append(list, message.Sequence)
		from = message.Sequence + 1
	}
}

// Say tells the controller that an item has been worked on.
func (q *Queue) Say(e Ended) error { return q.tell(subjectDone, e) }

// SayWorker tells the controller what a worker has.
func (q *Queue) SayWorker(w Worker) error {
	if !isToken(w.Name) {
		return fmt.Errorf("%q is not a name of a worker", w.Name)
	}
	return q.tell(subjectWorker+"."+w.Name, w)
}

// Cancel tells workers that a job is to end.
func (q *Queue) Cancel(jobUID string) error { return q.tell(subjectControl+".cancel", jobUID) }

// Limit tells workers what a host allows.
func (q *Queue) Limit(l Limits) error { return q.tell(subjectControl+".limits", l) }

func (q *Queue) tell(subject string, what any) error {
	data, err := json.Marshal(what)
	if err == nil {
		err = q.conn.Publish(subject, data)
	}
	if err != nil {
		return fmt.Errorf("tell %s: %w", subject, err)
	}
	return nil
}

// Heard are the functions that hear what workers or the controller tell. What cannot be read is passed over: it is a hint.
type Heard struct {
	Ended   func(Ended)
	Worker  func(Worker)
	Cancel  func(jobUID string)
	Limited func(Limits)
	// Dead is told of each message that goes to the dead letters, by its step.
	Dead func(Step)
}

// Listen has h hear until ctx ends. ready is called once everything is heard.
func (q *Queue) Listen(ctx context.Context, h Heard, ready func()) error {
	var subscriptions []*nats.Subscription
	defer func() {
		for _, s := range subscriptions {
			// The connection may be gone: then the subscription is, too.
			_ = s.Unsubscribe()
		}
	}()
	for subject, hear := range map[string]nats.MsgHandler{
		subjectDone: hears(h.Ended), subjectWorker + ".*": hears(h.Worker), subjectControl + ".cancel": hears(h.Cancel), subjectControl + ".limits": hears(h.Limited),
		subjectDead + ".>": hearsDead(h.Dead),
	} {
		if hear == nil {
			continue
		}
		s, err := q.conn.Subscribe(subject, hear)
		if err != nil {
			return fmt.Errorf("listen to %s: %w", subject, err)
		}
		subscriptions = append(subscriptions, s)
	}
	flush, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := q.conn.FlushWithContext(flush); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ready()
	<-ctx.Done()
	return nil
}

func hears[T any](hear func(T)) nats.MsgHandler {
	if hear == nil {
		return nil
	}
	return func(m *nats.Msg) {
		var what T
		if json.Unmarshal(m.Data, &what) == nil {
			hear(what)
		}
	}
}

// hearsDead hears of dead letters. What is in them is not read.
func hearsDead(hear func(Step)) nats.MsgHandler {
	if hear == nil {
		return nil
	}
	return func(m *nats.Msg) {
		token, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, subjectDead+"."), ".")
		for step, known := range tokens {
			if token == known {
				hear(step)
			}
		}
	}
}

// WaitIdle waits until no worker has a message, or ctx ends. It says whether none has.
func (q *Queue) WaitIdle(ctx context.Context, every time.Duration) (bool, error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		count, err := q.InFlight(ctx)
		if err != nil || count == 0 {
			return count == 0 && err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}
