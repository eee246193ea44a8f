// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// ErrReadOnly says that a hook writes without an upload URL.
var ErrReadOnly = process.Misconfigured(errors.New("this hook changes results, but the operator gave it no upload URLs: " +
	"set spec.type of its ScanCompletionHook to ReadAndWrite"))

// Session is one run of a hook for one Scan.
type Session struct {
	hook     string
	instance string
	scan     *Scan
	urls     urls
	// client reaches the Scan by the API. Nil if the Scan was handed over.
	client *scanclient.Client
	// outcome is what will be reported to the operator. Nil if the Scan was not handed over.
	outcome *outcome.Outcome
	// handover is how the Scan was handed over. Nil if it was not.
	handover *scanclient.Handover
	// exceptions are those that hold for the Scan, once they were read.
	exceptions *exceptions
	// excepted is what becomes of findings that an exception matches; empty for hooks that hand none on.
	excepted Excepted
	// findings are the size and digest that the findings must have. Nil: unknown.
	findings *outcome.Stored
	store    *transfer.Client
	sending  delivery.Options
	log      io.Writer
	// unparsed says that the Scan ended before it had findings.
	unparsed bool
}

// Scan is the Scan the hook runs for.
func (s *Session) Scan() *Scan { return s.scan }

// Transport reaches third parties: it uses the proxies of the environment and the cluster's extra CA.
func (s *Session) Transport() http.RoundTripper { return s.sending.Transport }

// Notef writes a line for people who read the hook's log. Never pass URLs or credentials.
func (s *Session) Notef(format string, args ...any) {
	fmt.Fprintf(s.log, "hook %s: %s\n", s.hook, fmt.Sprintf(format, args...))
}

// RawResult is the scanner's output as a stream. The caller closes it.
func (s *Session) RawResult(ctx context.Context) (io.ReadCloser, error) {
	body, _, err := s.store.Download(ctx, s.urls.raw)
	if err != nil {
		return nil, fmt.Errorf("get raw result: %w", err)
	}
	return body, nil
}

// Findings is a findings array that is being read. An element is valid until the next one is read.
type Findings struct {
	*finding.Reader
	io.Closer
}

// Findings opens the Scan's findings. The caller closes them. Each call starts at the first finding. A Scan that is Errored may
// have stored none; then there are none.
func (s *Session) Findings(ctx context.Context) (*Findings, error) {
	return s.open(ctx, s.urls.findings)
}

func (s *Session) open(ctx context.Context, from transfer.URL) (*Findings, error) {
	body, _, err := s.store.Download(ctx, from)
	if status, ok := errors.AsType[*transfer.StatusError](err); ok && status.Code == http.StatusNotFound && from == s.urls.findings && s.scan.failed() {
		// The Scan ended before parsing, and hooks that run on failures must report that.
		body, err = io.NopCloser(strings.NewReader("[]")), nil
		s.unparsed = true
	}
	if err == nil && from == s.urls.findings && s.findings != nil {
		body, err = checked(body, *s.findings)
	}
	if err != nil {
		return nil, fmt.Errorf("get findings: %w", err)
	}
	return &Findings{Reader: finding.NewReader(body, finding.Limits{}), Closer: body}, nil
}

// EachFinding calls a function with every finding as it is in findings.json. The bytes are valid during the call.
func (s *Session) EachFinding(ctx context.Context, do func(element []byte) error) error {
	return s.each(ctx, s.urls.findings, do)
}

func (s *Session) each(ctx context.Context, from transfer.URL, do func(element []byte) error) (err error) {
	findings, err := s.open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, findings.Close()) }()
	for {
		element, err := findings.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read findings: %w", err)
		}
		if err := do(element); err != nil {
			return fmt.Errorf("finding %d: %w", findings.Count()-1, err)
		}
	}
}

// Edit makes a finding from a finding; nil leaves it out. It may be called twice for the same finding and must return the same.
// The input is valid during the call, the output must be one JSON value.
type Edit func(element []byte) ([]byte, error)

// EditFindings replaces each finding by the result of edit, and updates the counters in the Scan's status.
func (s *Session) EditFindings(ctx context.Context, edit Edit) error {
	return s.UpdateFindings(ctx, func(ctx context.Context, out *Output) error {
		return s.EachFinding(ctx, func(element []byte) error {
			changed, err := edit(element)
			if err != nil || changed == nil {
				return err
			}
			return out.WriteRaw(changed)
		})
	})
}

// Output gets the findings of an update one by one.
type Output struct {
	writer *finding.Writer
	// stats is nil on any pass but the first.
	stats     *finding.Stats
	tally     *exception.Tally
	uncounted error
}

// Write appends a finding.
func (o *Output) Write(f *finding.Finding) error {
	raw, err := f.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("encode finding: %w", err)
	}
	return o.WriteRaw(raw)
}

// WriteRaw appends a finding that is JSON already; the caller vouches for its syntax.
func (o *Output) WriteRaw(element []byte) error {
	if o.stats != nil && o.uncounted == nil {
		if err := o.stats.AddRaw(element); err != nil {
			o.uncounted = fmt.Errorf("count findings: finding %d: %w", o.writer.Count(), err)
		}
		if err := o.tally.Add(element); err != nil && o.uncounted == nil {
			o.uncounted = fmt.Errorf("count excepted findings: finding %d: %w", o.writer.Count(), err)
		}
	}
	return o.writer.WriteRaw(element)
}

// UpdateFindings replaces all findings by those that produce writes, and updates the counters in the Scan's status. Large
// outputs are produced twice and must be the same both times. A finding that cannot be counted is stored like the others, as
// with every SDK of this protocol, and then returned as an error.
func (s *Session) UpdateFindings(ctx context.Context, produce func(ctx context.Context, out *Output) error) error {
	if s.urls.putFindings == "" {
		return ErrReadOnly
	}
	held, err := s.Exceptions(ctx)
	if err != nil {
		return err
	}
	first := &Output{stats: &finding.Stats{}, tally: exception.NewTally(held)}
	staged, err := Stage(ctx, func(ctx context.Context, w io.Writer) error {
		out := &Output{writer: finding.NewWriter(w)}
		if first.writer == nil {
			first.writer = out.writer
			out = first
		}
		if err := produce(ctx, out); err != nil {
			return err
		}
		return out.writer.Close()
	})
	if err != nil {
		return fmt.Errorf("make findings: %w", err)
	}
	if s.unparsed {
		s.Notef("the Scan ended without findings, so there are none to change")
		return nil
	}
	if err := s.store.Upload(ctx, s.urls.putFindings, staged.Size(), staged.Open, nil); err != nil {
		return fmt.Errorf("put findings: %w", err)
	}
	if first.uncounted != nil {
		return first.uncounted
	}
	if s.outcome != nil {
		stored := staged.Stored()
		s.outcome.Findings, s.findings = outcome.Count(first.stats, stored), &stored
		first.tally.Report(s.outcome.Findings)
		return nil
	}
	previous := slices.Sorted(maps.Keys(s.scan.Status.Findings.Categories))
	_, err = s.client.PatchStatus(ctx, first.stats.StatusPatch(previous))
	return err
}

// UpdateRawResult replaces the raw result by size bytes of open; open may be called again after a fault of the network.
// Findings and status do not change: the result is not parsed again.
func (s *Session) UpdateRawResult(ctx context.Context, size int64, open func() (io.ReadCloser, error)) error {
	if s.urls.putRaw == "" {
		return ErrReadOnly
	}
	if err := s.store.Upload(ctx, s.urls.putRaw, size, open, nil); err != nil {
		return fmt.Errorf("put raw result: %w", err)
	}
	return nil
}
