// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// giveBackTimeout is for handing messages back while the process ends.
const giveBackTimeout = 5 * time.Second

// message is a message in work.
type message struct {
	id, handle, body string
	// receives counts how often it was handed out, this time included.
	receives int
}

// queue is the SQS queue.
type queue struct {
	client *sqs.Client
	config SourceConfig
	clock  clock.WithTicker
}

// receive waits for messages; there may be none.
func (q *queue) receive(ctx context.Context) ([]message, error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &q.config.QueueURL,
		MaxNumberOfMessages:         q.config.MaxNumberOfMessages,
		VisibilityTimeout:           seconds(q.config.VisibilityTimeout.Duration),
		WaitTimeSeconds:             seconds(q.config.WaitTime.Duration),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, fmt.Errorf("receive from the SQS queue: %w", err)
	}
	messages := make([]message, 0, len(out.Messages))
	for i := range out.Messages {
		m := message{id: text(out.Messages[i].MessageId), handle: text(out.Messages[i].ReceiptHandle), body: text(out.Messages[i].Body), receives: 1}
		if n, err := strconv.Atoi(out.Messages[i].Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]); err == nil {
			m.receives = n
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// remove takes a message out of the queue for good.
func (q *queue) remove(ctx context.Context, m message) error {
	_, err := q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.config.QueueURL, ReceiptHandle: &m.handle})
	if err != nil {
		return fmt.Errorf("delete a message from the SQS queue: %w", err)
	}
	return nil
}

// hide keeps a message from others for a time; none lets it be received again at once.
func (q *queue) hide(ctx context.Context, m message, d time.Duration) error {
	_, err := q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.config.QueueURL, ReceiptHandle: &m.handle, VisibilityTimeout: seconds(d),
	})
	if err != nil {
		return fmt.Errorf("change the visibility of a message in the SQS queue: %w", err)
	}
	return nil
}

// redrive says after how many receives SQS itself takes a message out; 0 where it does not.
func (q *queue) redrive(ctx context.Context) (int, error) {
	out, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &q.config.QueueURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy},
	})
	if err != nil {
		return 0, fmt.Errorf("get the redrive policy of the SQS queue: %w", err)
	}
	policy := out.Attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if policy == "" {
		return 0, nil
	}
	// SQS writes the number as a number or, as it was set, as a text.
	var p struct {
		MaxReceiveCount json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return 0, fmt.Errorf("read the redrive policy of the SQS queue: %w", err)
	}
	var n json.Number
	if err := json.Unmarshal(p.MaxReceiveCount, &n); err != nil {
		return 0, fmt.Errorf("read the redrive policy of the SQS queue: %w", err)
	}
	count, err := strconv.Atoi(n.String())
	if err != nil {
		return 0, fmt.Errorf("read the redrive policy of the SQS queue: %w", err)
	}
	return count, nil
}

// held are messages in work: their time is extended until they are let go of.
type held struct {
	queue *queue
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	messages map[string]message
}

// hold extends the time of messages, each half of the timeout, until they are let go of.
func (q *queue) hold(ctx context.Context, messages []message) *held {
	ctx, stop := context.WithCancel(ctx)
	h := &held{queue: q, stop: stop, done: make(chan struct{}), messages: map[string]message{}}
	for _, m := range messages {
		h.messages[m.handle] = m
	}
	ticker := q.clock.NewTicker(q.config.VisibilityTimeout.Duration / 2)
	go func() {
		defer close(h.done)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				h.extend(ctx)
			}
		}
	}()
	return h
}

func (h *held) extend(ctx context.Context) {
	for _, m := range h.rest() {
		// Another process may have it by now; doing the work twice does no harm.
		if err := h.queue.hide(ctx, m, h.queue.config.VisibilityTimeout.Duration); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Info("A message cannot be kept from others", "messageID", m.id, "error", err.Error())
		}
	}
}

func (h *held) rest() []message {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := make([]message, 0, len(h.messages))
	for _, m := range h.messages {
		rest = append(rest, m)
	}
	return rest
}

// letGo stops extending the time of a message.
func (h *held) letGo(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.messages, m.handle)
}

// giveBack ends the holding. Messages that were not worked on become visible at once.
func (h *held) giveBack(ctx context.Context) {
	h.stop()
	<-h.done
	rest := h.rest()
	if len(rest) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	for _, m := range rest {
		if err := h.queue.hide(ctx, m, 0); err != nil {
			logr.FromContextOrDiscard(ctx).Info("A message stays hidden until its time is over", "messageID", m.id, "error", err.Error())
		}
	}
}

func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
