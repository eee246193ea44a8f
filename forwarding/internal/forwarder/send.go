// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/forwarding/internal/discreet"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/internal/scans"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	defaultTimeout  = time.Minute
	defaultRetryMax = 5 * time.Minute
)

// sendFlags say what is sent where.
type sendFlags struct {
	source   sourceFlags
	sinks    []string
	retryMax time.Duration
	timeout  time.Duration
	options  Options
}

func newSend(o Options) *cobra.Command {
	f := &sendFlags{options: o}
	cmd := &cobra.Command{
		Use: "send", Short: "Send one Scan to sinks, and say what they have of it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.source.bind(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.sinks, "sink", nil, "a sink as NAME=URL[,KEY=VALUE…]; may be given several times")
	cmd.Flags().DurationVar(&f.retryMax, "retry-max", defaultRetryMax, "longest wait between two tries")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "how long to try")
	return cmd
}

// line is what is printed for each sink.
type line struct {
	Sink       string        `json:"sink"`
	Records    uint64        `json:"records"`
	Stored     uint64        `json:"stored"`
	Duplicates uint64        `json:"duplicates"`
	Rejected   uint64        `json:"rejected"`
	Verdict    scans.Verdict `json:"verdict"`
	Chain      string        `json:"chain"`
}

// result is what has become of one sink.
type result struct {
	line       line
	rejections []sink.Rejection
	err        error
}

func (f *sendFlags) run(ctx context.Context) error {
	targets, err := f.parse()
	if err != nil {
		return err
	}
	source, err := f.source.source()
	if err != nil {
		return err
	}
	if _, closer, err := f.source.open(source); err != nil {
		return err
	} else if err := closer.Close(); err != nil {
		return err
	}
	opened, err := f.openAll(targets, source.ClusterID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	results := make([]chan result, len(targets))
	for i, target := range targets {
		results[i] = make(chan result, 1)
		go func() { results[i] <- f.one(ctx, target, opened[i], source) }()
	}
	return f.print(results)
}

// parse reads the flags of sinks.
func (f *sendFlags) parse() ([]sinkurl.Sink, error) {
	if len(f.sinks) == 0 {
		return nil, wrongFlag("sink", errors.New("must be given, such as hub=grpcs://compliance.example.com:443"))
	}
	if f.timeout <= 0 {
		return nil, wrongFlag("timeout", errors.New("must be longer than nothing, such as 60s"))
	}
	if f.retryMax <= 0 {
		return nil, wrongFlag("retry-max", errors.New("must be longer than nothing, such as 5m"))
	}
	targets := make([]sinkurl.Sink, 0, len(f.sinks))
	names := map[string]bool{}
	for _, text := range f.sinks {
		target, err := sinkurl.Parse(text)
		if err != nil {
			return nil, wrongFlag("sink", err)
		}
		if names[target.Config.Name] {
			return nil, wrongFlag("sink", fmt.Errorf("the name %s is given twice", target.Config.Name))
		}
		names[target.Config.Name] = true
		targets = append(targets, target)
	}
	return targets, nil
}

// openAll makes the sinks; where one cannot be made none stays open.
func (f *sendFlags) openAll(targets []sinkurl.Sink, clusterID string) ([]sink.Sink, error) {
	opened := make([]sink.Sink, 0, len(targets))
	for i := range targets {
		config := targets[i].Config
		config.ClusterID, config.Version = clusterID, f.options.Version
		s, err := discreet.Open(config)
		if err != nil {
			for _, other := range opened {
				err = errors.Join(err, other.Close())
			}
			return nil, wrongFlag("sink", err)
		}
		opened = append(opened, s)
	}
	return opened, nil
}

// one sends everything to one sink.
func (f *sendFlags) one(ctx context.Context, target sinkurl.Sink, to sink.Sink, source mapping.Source) result {
	bounds := retry.Bounds{Initial: target.RetryInitial, Max: f.retryMax}
	if target.RetryMax > 0 {
		bounds.Max = target.RetryMax
	}
	sending := scans.Sending{
		Sink: to, Retry: scans.Retry{Bounds: bounds}, Limits: scans.Limits{MaxRecords: target.MaxRecords, MaxBytes: target.MaxBytes},
		Open: func(context.Context, mapping.Position) (*mapping.Reader, io.Closer, error) {
			return f.source.open(source)
		},
	}
	report, err := sending.Send(ctx)
	if closing := to.Close(); closing != nil && err == nil {
		err = fmt.Errorf("close: %w", closing)
	}
	return result{err: err, rejections: report.Rejections, line: line{
		Sink: target.Config.Name, Records: report.Records, Stored: report.Stored, Duplicates: report.Duplicates, Rejected: report.Rejected,
		Verdict: report.Verdict, Chain: hex.EncodeToString(report.Chain),
	}}
}

// print prints a line for each sink, in the order of the flags, and says to people what failed.
func (f *sendFlags) print(results []chan result) error {
	out := json.NewEncoder(f.options.Out)
	var failed []error
	for _, next := range results {
		r := <-next
		if err := out.Encode(r.line); err != nil {
			failed = append(failed, err)
		}
		for _, rejected := range r.rejections {
			if _, err := fmt.Fprintf(f.options.Err, "sink %s: rejected %s: %s: %s\n", r.line.Sink, rejected.EventID, rejected.Reason, rejected.Message); err != nil {
				failed = append(failed, err)
			}
		}
		if r.err != nil {
			failed = append(failed, fmt.Errorf("sink %s: %w", r.line.Sink, r.err))
		}
	}
	return errors.Join(failed...)
}
