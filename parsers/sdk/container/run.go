// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/podkit/handoff"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/resultfile"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// run is one parser run.
type run struct {
	Config
	scan     *sdk.Scan
	parser   sdk.Parser
	parsedAt time.Time
	raw      *tracked
	// exceptions are those that hold for the Scan.
	exceptions *exception.Selection
}

// Run parses the raw result of the Scan, stores the findings and reports their counts: to the operator, if it has handed the
// Scan over, else in the Scan's status.
func Run(ctx context.Context, c Config) error {
	scan, err := c.readScan(ctx)
	if err != nil {
		return err
	}
	if scan.Status.RawResultType == "" {
		return errors.New("the Scan's status names no rawResultType, so it is not known what the raw result is")
	}
	parser, err := c.Lookup(scan.Status.RawResultType)
	if err != nil {
		return process.Misconfigured(err)
	}
	source, err := c.rawResult(ctx)
	if err != nil || source == nil {
		return err
	}
	r := &run{Config: c, scan: scan, parser: parser, parsedAt: c.Clock.Now(), raw: &tracked{Source: source}}
	conditions, err := r.readExceptions(ctx)
	if err != nil {
		return err
	}
	size, kept, stats, reached, err := r.measure(ctx)
	if err != nil {
		return fmt.Errorf("parse %s: %w", parser.ResultType, explain(err))
	}
	c.Log.Info("parsed", "resultType", parser.ResultType, "findings", stats.Count, "bytes", size, "kept", kept != nil,
		"reached", reached.Status, "because", reached.Message)
	sent := &digest{open: r.source(ctx, kept)}
	if err := c.Store.Upload(ctx, c.Findings, size, sent.Open, nil); err != nil {
		return fmt.Errorf("store the findings: %w", explain(err))
	}
	if c.Handover == nil {
		return r.patch(ctx, stats.Stats)
	}
	told := &outcome.Outcome{Findings: outcome.Count(stats.Stats, sent.stored()), Reached: &reached, Conditions: conditions}
	stats.tally.Report(told.Findings)
	return r.report(ctx, told)
}

// rawResult is where the raw result comes from: storage, or the file that the scanner of this pod has left. Nil: the scanner has
// left none, and there is nothing to do.
func (c Config) rawResult(ctx context.Context) (sdk.Source, error) {
	if c.File == "" {
		return sdk.SourceFunc(func(ctx context.Context) (io.ReadCloser, error) {
			raw, _, err := c.Store.Download(ctx, c.Raw)
			return raw, err
		}), nil
	}
	c.Log.Info("waiting for the scanner", "file", c.File)
	scanned, err := handoff.Await(ctx, c.Handoff, c.Clock)
	if err != nil {
		return nil, err
	}
	if !scanned {
		c.Log.Info("the scanner has left no result")
		return nil, nil
	}
	file, err := resultfile.Find(c.File)
	if err != nil {
		return nil, err
	}
	return sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) { return file.Open() }), nil
}

// explain adds a remedy where the store's error has none.
func explain(err error) error {
	if transfer.IsExpired(err) {
		return fmt.Errorf("%w (the presigned URL is no longer valid: the parser started too late or took too long; "+
			"raise URL_EXPIRATION_PARSER of the operator and run the scan again)", err)
	}
	return err
}

// measure parses once, to know the size, the counters and what was reached. Findings are kept if they are small; kept is
// nil if not.
func (r *run) measure(ctx context.Context) (
	size int64, kept []byte, stats *counts, reached outcome.Reached, err error,
) {
	buffer := &boundedBuffer{limit: r.BufferLimit}
	tally := exception.NewTally(r.exceptions)
	encoder, reached, err := r.parseTo(ctx, buffer, tally)
	if err != nil {
		return 0, nil, nil, reached, unreadable(ctx, err, r.raw)
	}
	if encoder.Invalid > 0 {
		err := encoder.Strict()
		if r.Strict {
			return 0, nil, nil, reached, unreadable(ctx, fmt.Errorf("%w (%s is true)", err, EnvStrict), r.raw)
		}
		r.Log.Warn("some findings break the schema", "error", err)
	}
	return buffer.size, buffer.kept, &counts{&encoder.Stats, tally}, reached, nil
}

// counts are those of all findings, and those by exceptions.
type counts struct {
	*finding.Stats
	tally *exception.Tally
}

// parseTo parses once. The tally counts; nil for a parsing that was counted before.
func (r *run) parseTo(ctx context.Context, w io.Writer, tally *exception.Tally) (*sdk.Encoder, outcome.Reached, error) {
	encoder := sdk.NewEncoder(w, r.parser, r.scan.Info(), r.parsedAt)
	if tally != nil {
		encoder.Also = tally.Add
	}
	in := &sdk.Input{Source: r.raw, Scan: r.scan, Env: r.Env, Limits: r.Limits}
	if err := sdk.Run(ctx, r.parser, in, encoder.Emit); err != nil {
		return nil, outcome.Reached{}, err
	}
	return encoder, in.Reach(), encoder.Close()
}

// source gives the findings for one attempt of the upload: from memory, or by parsing again.
func (r *run) source(ctx context.Context, kept []byte) func() (io.ReadCloser, error) {
	if kept != nil {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(kept)), nil }
	}
	return func() (io.ReadCloser, error) {
		ctx, cancel := context.WithCancel(ctx)
		out, in := io.Pipe()
		s := &stream{PipeReader: out, cancel: cancel, done: make(chan struct{})}
		go func() {
			defer close(s.done)
			_, _, err := r.parseTo(ctx, in, nil)
			_ = in.CloseWithError(err) // never fails
		}()
		return s, nil
	}
}

// stream is the output of a parser that is running.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close stops the parser and waits for it, so that there is never more than one.
func (s *stream) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.done
	return err
}

// patch writes the counters. The response shows whether categories of an earlier run are left that the Scan did not have
// yet when it was read.
func (r *run) patch(ctx context.Context, stats *finding.Stats) error {
	previous := r.scan.CountedCategories()
	for range 3 {
		patched, err := r.Client.PatchStatus(ctx, stats.StatusPatch(previous))
		if err != nil {
			return err
		}
		now, err := sdk.DecodeScan(patched)
		if err != nil {
			return err
		}
		previous = slices.DeleteFunc(now.CountedCategories(), func(category string) bool {
			return stats.Categories[category] > 0
		})
		if len(previous) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the Scan's status keeps counting categories without findings (%q): "+
		"another client writes them", previous[0])
}

// boundedBuffer counts what is written and keeps it as long as it is small.
type boundedBuffer struct {
	limit int
	size  int64
	kept  []byte
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	fits := b.size+int64(len(p)) <= int64(b.limit)
	b.size += int64(len(p))
	if fits {
		b.kept = append(b.kept, p...)
	} else {
		b.kept = nil
	}
	return len(p), nil
}
