// SPDX-License-Identifier: Apache-2.0

// Package discreet opens sinks that keep their secrets to themselves.
package discreet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/podkit/redact"
)

// discretion keeps the secrets of a sink out of what the sink says. Far ends repeat what they are sent: in the body of a refusal, in the text of
// an error, in the page of a gateway.
type discretion struct {
	secrets sink.Secrets

	mutex sync.Mutex
	// present is how the far end may repeat the secrets that were read last, before those that were others.
	material        sink.Material
	present, before []string
}

var _ sink.Secrets = (*discretion)(nil)

// Open is [sink.Open] of a sink that says nothing which holds one of the secrets that it has read.
func Open(config sink.Config) (sink.Sink, error) {
	if config.Secrets == nil {
		return sink.Open(config)
	}
	d := &discretion{secrets: config.Secrets}
	config.Secrets = d
	opened, err := sink.Open(config)
	if err != nil {
		return nil, err
	}
	return d.over(opened), nil
}

// Read reads the secrets and remembers them.
func (d *discretion) Read(ctx context.Context) (sink.Material, error) {
	m, err := d.secrets.Read(ctx)
	if err != nil {
		return m, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !reflect.DeepEqual(m, d.material) {
		d.material, d.present, d.before = m, repetitions(m), d.present
	}
	return m, nil
}

const (
	// shortest is the length below which the beginning of a secret at the end of a text is not a trace of it.
	shortest = 4
	// shortestLine is the same for the lines of a secret.
	shortestLine = 16
)

// repetitions are the forms in which a far end may repeat secrets.
func repetitions(m sink.Material) (all []string) {
	secrets := []string{m.Token.Reveal(), m.Password.Reveal(), string(m.Key)}
	for _, s := range m.Further {
		secrets = append(secrets, s.Reveal())
	}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		for line := range strings.Lines(secret) { // a file of credentials holds several
			if line = strings.TrimSpace(line); len(line) >= shortestLine {
				all = append(all, line)
			}
		}
		quoted, err := json.Marshal(secret)
		if err == nil {
			all = append(all, strings.Trim(string(quoted), `"`))
		}
		all = append(all, secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
			url.QueryEscape(secret), url.PathEscape(secret))
	}
	if m.Password != "" {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(m.Username+":"+m.Password.Reveal())))
	}
	return all
}

// text is a text without the secrets, also without the beginning of one where the text was cut.
func (d *discretion) text(text string) string {
	d.mutex.Lock()
	words := slices.Concat(d.present, d.before)
	d.mutex.Unlock()
	text = redact.Of(words...).Text(text)
	for _, word := range words {
		for n := min(len(word)-1, len(text)); n >= shortest; n-- {
			if begin, cut := strings.CutSuffix(text, word[:n]); cut {
				text = begin + redact.Mark
				break
			}
		}
	}
	return text
}

// err is an error of a sink without the secrets.
func (d *discretion) err(err error) error {
	if err == nil {
		return nil
	}
	e := *sink.AsError(err)
	e.Message = d.text(e.Message)
	return &e
}

// outcome is an Outcome without the secrets.
func (d *discretion) outcome(o sink.Outcome) sink.Outcome {
	o.Rejected = slices.Clone(o.Rejected)
	for i := range o.Rejected {
		o.Rejected[i].Message = d.text(o.Rejected[i].Message)
	}
	return o
}

// over is the sink with the discretion. What the sink can do beside its duties the other one can do, too.
func (d *discretion) over(s sink.Sink) sink.Sink {
	base := discreet{s, d}
	gatherer, gathers := s.(sink.Gatherer)
	prover, proves := s.(sink.Prover)
	switch {
	case gathers && proves:
		return struct {
			discreet
			discreetGatherer
			discreetProver
		}{base, discreetGatherer{gatherer, d}, discreetProver{prover, d}}
	case gathers:
		return struct {
			discreet
			discreetGatherer
		}{base, discreetGatherer{gatherer, d}}
	case proves:
		return struct {
			discreet
			discreetProver
		}{base, discreetProver{prover, d}}
	}
	return base
}

type discreet struct {
	sink       sink.Sink
	discretion *discretion
}

// Deliver hands over one batch.
func (s discreet) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	outcome, err := s.sink.Deliver(ctx, batch)
	return s.discretion.outcome(outcome), s.discretion.err(err)
}

// Probe asks whether the far end would take records.
func (s discreet) Probe(ctx context.Context) error { return s.discretion.err(s.sink.Probe(ctx)) }

// Unordered tells whether the far end promises no order.
func (s discreet) Unordered() bool {
	asked, can := s.sink.(sink.Unordered)
	return can && asked.Unordered()
}

// Close ends connections.
func (s discreet) Close() error { return s.sink.Close() }

type discreetGatherer struct {
	gatherer   sink.Gatherer
	discretion *discretion
}

// Gather hands over batches of several streams.
func (s discreetGatherer) Gather(ctx context.Context, batches []sink.Batch) (sink.Outcome, error) {
	outcome, err := s.gatherer.Gather(ctx, batches)
	return s.discretion.outcome(outcome), s.discretion.err(err)
}

type discreetProver struct {
	prover     sink.Prover
	discretion *discretion
}

// Proof says what the far end holds of a stream.
func (s discreetProver) Proof(ctx context.Context, stream *forwardingv1.StreamId) (sink.Verdict, error) {
	verdict, err := s.prover.Proof(ctx, stream)
	return verdict, s.discretion.err(err)
}
