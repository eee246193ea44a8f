// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Retry is how long to wait between tries. Zeros take the defaults.
type Retry struct {
	retry.Bounds

	// Wait waits; nil: a timer.
	Wait func(context.Context, time.Duration) error
}

// do calls try until it succeeds, refuses, or the context ends; then the error is the last one of try.
func (r *Retry) do(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		failure := sink.AsError(err)
		if failure.Class == sink.Refused {
			return failure
		}
		if err := r.after(ctx, failure, n); err != nil {
			return err
		}
	}
}

// after waits for the next try. The error is the failure, once the context has ended.
func (r *Retry) after(ctx context.Context, failure *sink.Error, n int) error {
	wait := r.Wait
	if wait == nil {
		wait = sleep
	}
	if ended := wait(ctx, r.pause(failure, n)); ended != nil {
		return fmt.Errorf("%w (%w)", failure, ended)
	}
	return nil
}

// pause is the wait after try number n from 0.
func (r *Retry) pause(failure *sink.Error, n int) time.Duration {
	return r.After(failure, n, rand.Float64()) //nolint:gosec // jitter protects nothing
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delivery hands batches to a sink: again where the sink failed, in halves where the far end refuses or asks for less.
type delivery struct {
	sink  sink.Sink
	retry Retry
	guard Guard
	run   int // records that were refused one by one since the last that was not
}

// longestRun is how many records are refused one by one before the far end is asked for single ones only.
const longestRun = 20

// batch delivers all records of a batch, in order.
func (d *delivery) batch(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	for n := 0; ; n++ {
		outcome, err := d.sink.Deliver(ctx, batch)
		if err == nil {
			d.run = 0
			return outcome, nil
		}
		failure, many := sink.AsError(err), len(batch.Records) > 1
		if failure.Class == sink.Refused {
			if many {
				return d.halves(ctx, batch)
			}
			if d.run++; d.guard != nil && d.run >= longestRun {
				d.run = 0
				d.guard.Note(make([]bool, longestRun))
				return sink.Outcome{}, refusesEverything()
			}
			rejection := sink.Rejection{EventID: batch.Records[0].EventID, Reason: string(failure.Reason), Message: failure.Message}
			return sink.Outcome{Rejected: []sink.Rejection{rejection}}, nil
		}
		if err := d.retry.after(ctx, failure, n); err != nil {
			return sink.Outcome{}, err
		}
		if failure.Class == sink.Overload && many {
			return d.halves(ctx, batch)
		}
	}
}

// halves delivers a batch in two.
func (d *delivery) halves(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	middle := len(batch.Records) / 2
	var both sink.Outcome
	for _, records := range [][]sink.Record{batch.Records[:middle], batch.Records[middle:]} {
		outcome, err := d.batch(ctx, sink.Batch{Stream: batch.Stream, Records: records})
		if err != nil {
			return sink.Outcome{}, err
		}
		both.Duplicates += outcome.Duplicates
		both.Rejected = append(both.Rejected, outcome.Rejected...)
		both.Streams = append(both.Streams, outcome.Streams...)
	}
	return both, nil
}
