// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"fmt"
)

// Limits bound a batch. An item that would exceed one of them begins the next batch; an item that alone is larger than Bytes
// is a batch of its own.
type Limits struct {
	// Count is the number of items, 500 where it is 0.
	Count int
	// Bytes is their size together, 4 MiB where it is 0.
	Bytes int
}

// Defaults of Limits.
const (
	DefaultBatchCount = 500
	DefaultBatchBytes = 4 << 20
)

// Item is one piece of a batch. Its Data is valid until the batch is sent.
type Item struct {
	// ID names the item in the same way in every run.
	ID   string
	Data []byte
}

// Batch is sent with one request.
type Batch struct {
	// Number counts batches from 0. The rest of a batch that was partly accepted keeps its number.
	Number int
	Items  []Item
}

// IDs are the items' ids in order: the key of the batch is made of them.
func (b *Batch) IDs() []string {
	ids := make([]string, 0, len(b.Items))
	for i := range b.Items {
		ids = append(ids, b.Items[i].ID)
	}
	return ids
}

// Array is a Body: a JSON array of the items' data.
func (b *Batch) Array() Body { return b.Join("[", ",", "]") }

// Lines is a Body: each item's data followed by a line break.
func (b *Batch) Lines() Body {
	body := make(Pieces, 0, 2*len(b.Items))
	for i := range b.Items {
		body = append(body, b.Items[i].Data, []byte("\n"))
	}
	return body
}

// Join is a Body: the items' data with texts before, between and after.
func (b *Batch) Join(before, between, after string) Body {
	body := make(Pieces, 0, 2*len(b.Items)+2)
	body = append(body, []byte(before))
	for i := range b.Items {
		if i > 0 {
			body = append(body, []byte(between))
		}
		body = append(body, b.Items[i].Data)
	}
	return append(body, []byte(after))
}

// Failure is an item that the remote service refused while it accepted others.
type Failure struct {
	// Index is the item's position in the batch.
	Index int
	// Err is the reason, in few words and without credentials; see [Excerpt].
	Err error
	// Again says that the service may accept the item later.
	Again bool
}

// Send delivers one batch, mostly with [Client.Do]. An error means the whole batch; if the remote service accepted some
// items and not others, Send returns the latter.
type Send func(ctx context.Context, b *Batch) ([]Failure, error)

// Batcher collects items and sends them in batches, one after another. It holds one batch in memory.
type Batcher struct {
	client *Client
	limits Limits
	send   Send

	number  int
	ids     []string
	ends    []int // where each item ends in data
	data    []byte
	total   int
	refused PartialError
}

// NewBatcher makes a Batcher that repeats the rest of a batch as the Client repeats requests.
func (c *Client) NewBatcher(limits Limits, send Send) *Batcher {
	setDefault(&limits.Count, DefaultBatchCount)
	setDefault(&limits.Bytes, DefaultBatchBytes)
	return &Batcher{client: c, limits: limits, send: send}
}

// Add adds an item, copying its data. A batch that has no room for the item is sent first.
func (b *Batcher) Add(ctx context.Context, id string, data []byte) error {
	if len(b.ids) > 0 && (len(b.ids) >= b.limits.Count || len(b.data)+len(data) > b.limits.Bytes) {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.ids = append(b.ids, id)
	b.data = append(b.data, data...)
	b.ends = append(b.ends, len(b.data))
	b.total++
	return nil
}

// Close sends the last batch. Its error is a *PartialError if items were refused for good.
func (b *Batcher) Close(ctx context.Context) error {
	if len(b.ids) > 0 {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	if b.refused.Refused > 0 {
		b.refused.Remote, b.refused.Total = b.client.remote(), b.total
		return &b.refused
	}
	return nil
}

// Count is how many items were added.
func (b *Batcher) Count() int { return b.total }

// Batches is how many batches were sent.
func (b *Batcher) Batches() int { return b.number }

func (b *Batcher) flush(ctx context.Context) error {
	batch := &Batch{Number: b.number, Items: make([]Item, len(b.ids))}
	start := 0
	for i, end := range b.ends {
		batch.Items[i] = Item{ID: b.ids[i], Data: b.data[start:end:end]}
		start = end
	}
	if err := b.deliver(ctx, batch); err != nil {
		return err
	}
	b.number++
	clear(b.ids)
	b.ids, b.ends, b.data = b.ids[:0], b.ends[:0], b.data[:0]
	if cap(b.data) > 2*b.limits.Bytes {
		b.data = nil // the memory of one huge item must not be kept until the end
	}
	return nil
}

func (b *Batcher) deliver(ctx context.Context, batch *Batch) error {
	loop := b.client.newLoop()
	for {
		failures, err := b.send(ctx, batch)
		if err != nil {
			return err
		}
		if err := b.check(batch, failures); err != nil {
			return err
		}
		rest, why := b.sort(batch, failures)
		if len(rest) == 0 {
			return nil
		}
		why = fmt.Errorf("%s does not take %d of %d findings: %w", b.client.remote(), len(rest), len(batch.Items), why)
		if err := b.client.wait(ctx, loop, TryAgain(why, 0)); err != nil {
			return err
		}
		batch = &Batch{Number: batch.Number, Items: rest}
	}
}

// check makes sure that a hook understood the response: findings that it cannot name would be lost.
func (b *Batcher) check(batch *Batch, failures []Failure) error {
	for _, f := range failures {
		if f.Index < 0 || f.Index >= len(batch.Items) || f.Err == nil {
			return fmt.Errorf("%s reports a failure of item %d in a batch of %d", b.client.remote(), f.Index, len(batch.Items))
		}
	}
	return nil
}

// sort records the items that were refused for good, and returns those to send again and the reason of the first of these.
func (b *Batcher) sort(batch *Batch, failures []Failure) (rest []Item, why error) {
	for _, f := range failures {
		item := batch.Items[f.Index]
		if !f.Again {
			b.refused.add(item.ID, f.Err)
			continue
		}
		if why == nil {
			why = f.Err
		}
		rest = append(rest, item)
	}
	return rest, why
}

// maxExamples is how many refused items are named.
const maxExamples = 3

// PartialError says that the remote service accepted all items except some.
type PartialError struct {
	// Remote is the name of the service, with its host.
	Remote string
	// Refused of Total findings were not accepted.
	Refused, Total int
	examples       []error
}

func (e *PartialError) add(id string, err error) {
	e.Refused++
	if len(e.examples) < maxExamples {
		e.examples = append(e.examples, fmt.Errorf("finding %s: %w", id, err))
	}
}

// Error counts the refused items and gives the first reasons.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%s refuses %d of %d findings, such as %s", e.Remote, e.Refused, e.Total,
		Excerpt(errors.Join(e.examples...).Error()))
}

// ExitCode is the exit code of the container: the error names some of the refused items, and a retry may bring others.
func (e *PartialError) ExitCode() int { return 1 }

// Unwrap returns the first reasons.
func (e *PartialError) Unwrap() []error { return e.examples }
