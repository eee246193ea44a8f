// SPDX-License-Identifier: Apache-2.0

package discreet_test

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/discreet"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// echo is a sink whose far end repeats what it is sent.
type echo struct {
	sink.Sink

	secrets sink.Secrets
	says    func(sink.Material) string
}

func (e *echo) said(ctx context.Context) string {
	m, err := e.secrets.Read(ctx)
	if err != nil {
		return err.Error()
	}
	return e.says(m)
}

func (e *echo) Deliver(ctx context.Context, _ sink.Batch) (sink.Outcome, error) {
	return sink.Outcome{Duplicates: 1, Rejected: []sink.Rejection{{EventID: "1", Message: e.said(ctx)}}}, nil
}

func (e *echo) Probe(ctx context.Context) error {
	return &sink.Error{Class: sink.Auth, Reason: sink.TokenRejected, Message: e.said(ctx), RetryAfter: time.Minute}
}

func (*echo) Close() error { return nil }

type (
	gathers struct{ *echo }
	proves  struct{ *echo }
	both    struct {
		*echo
		gathers
		proves
	}
)

func (e gathers) Gather(ctx context.Context, _ []sink.Batch) (sink.Outcome, error) {
	return e.Deliver(ctx, sink.Batch{})
}

func (e proves) Proof(ctx context.Context, _ *forwardingv1.StreamId) (sink.Verdict, error) {
	return sink.Verdict{Records: 7}, e.Probe(ctx)
}

// held are the secrets of a sink, which may be changed.
type held struct{ material sink.Material }

func (h *held) Read(context.Context) (sink.Material, error) { return h.material, nil }

// TestFarEndsRepeatNoSecrets: whatever the form in which a far end repeats a secret, and wherever its words were cut, the sink does not say it.
func TestFarEndsRepeatNoSecrets(t *testing.T) {
	const token, password = "the token\"of+the/sink", "a-word%2Fwith signs"
	long := strings.Repeat("0123456789abcdef", 40)
	for name, test := range map[string]struct {
		material sink.Material
		says     func(sink.Material) string
		want     string
	}{
		"Token":     {sink.Material{Token: token}, func(sink.Material) string { return "no such token " + token + ", sorry" }, "no such token …, sorry"},
		"InJSON":    {sink.Material{Token: token}, func(sink.Material) string { return `{"got": "the token\"of+the/sink"}` }, `{"got": "…"}`},
		"InAnURL":   {sink.Material{Token: token}, func(sink.Material) string { return "in " + url.QueryEscape(token) }, "in …"},
		"Encoded":   {sink.Material{Token: token}, func(sink.Material) string { return base64.StdEncoding.EncodeToString([]byte(token)) }, "…"},
		"Password":  {sink.Material{Username: "me", Password: password}, func(sink.Material) string { return "me is not " + password }, "me is not …"},
		"BasicAuth": {sink.Material{Username: "me", Password: password}, func(sink.Material) string { return base64.StdEncoding.EncodeToString([]byte("me:" + password)) }, "…"},
		"Further":   {sink.Material{Further: map[string]sink.Secret{"secret": "whsec_of the sink"}}, func(sink.Material) string { return "whsec_of the sink" }, "…"},
		"Lines":     {sink.Material{Further: map[string]sink.Secret{"creds": "--\nthe-seed-of-the-user\n--"}}, func(sink.Material) string { return "the-seed-of-the-user?" }, "…?"},
		"Cut":       {sink.Material{Token: sink.Secret(long)}, func(sink.Material) string { return "no such token " + long[:100] }, "no such token …"},
		"Form":      {sink.Material{Token: token}, func(sink.Material) string { return "Authorization: Bearer of-somebody-else" }, "Authorization: …"},
		"Nothing":   {sink.Material{}, func(sink.Material) string { return "unauthorized: no such user" }, "unauthorized: no such user"},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, &held{test.material}, func(e *echo) sink.Sink { return both{e, gathers{e}, proves{e}} }, test.says)
			outcome, err := s.Deliver(t.Context(), sink.Batch{})
			gathered, gatherErr := s.(sink.Gatherer).Gather(t.Context(), nil)
			verdict, proof := s.(sink.Prover).Proof(t.Context(), nil)
			if err != nil || gatherErr != nil || outcome.Duplicates != 1 || verdict.Records != 7 {
				t.Errorf("%+v, %v, %v, %+v", outcome, err, gatherErr, verdict)
			}
			probe := sink.AsError(s.Probe(t.Context()))
			if probe.Class != sink.Auth || probe.Reason != sink.TokenRejected || probe.RetryAfter != time.Minute {
				t.Errorf("the error is another one: %+v", probe)
			}
			for what, got := range map[string]string{
				"rejection": outcome.Rejected[0].Message, "of several": gathered.Rejected[0].Message, "probe": probe.Message, "proof": sink.AsError(proof).Message,
			} {
				if got != test.want {
					t.Errorf("%s: %q, want %q", what, got, test.want)
				}
			}
		})
	}
}

// opened is a sink as programs have it.
func opened(t *testing.T, secrets sink.Secrets, as func(*echo) sink.Sink, says func(sink.Material) string) sink.Sink {
	t.Helper()
	sink.Register("test-echo", func(c sink.Config) (sink.Sink, error) { return as(&echo{secrets: c.Secrets, says: says}), nil })
	s, err := discreet.Open(sink.Config{URL: &url.URL{Scheme: "test-echo"}, Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRotatedSecretsAreNotRepeated: a far end may still speak of the secret before.
func TestRotatedSecretsAreNotRepeated(t *testing.T) {
	secrets := &held{sink.Material{Token: "the-first-token"}}
	s := opened(t, secrets, func(e *echo) sink.Sink { return e }, func(sink.Material) string { return "the-first-token the-second-token" })
	_ = s.Probe(t.Context())
	secrets.material.Token = "the-second-token"
	if got := sink.AsError(s.Probe(t.Context())).Message; got != "… …" {
		t.Errorf("%q", got)
	}
}

// unordered is an echo from far ends without an order.
type unordered struct{ sink.Sink }

// Unordered is true.
func (unordered) Unordered() bool { return true }

// TestSinksCanStillDoWhatTheyCan: programs ask sinks what they can do beside their duties.
func TestSinksCanStillDoWhatTheyCan(t *testing.T) {
	for name, test := range map[string]struct {
		as                         func(*echo) sink.Sink
		gathers, proves, unordered bool
	}{
		"Neither":   {func(e *echo) sink.Sink { return e }, false, false, false},
		"Gathers":   {func(e *echo) sink.Sink { return gathers{e} }, true, false, false},
		"Proves":    {func(e *echo) sink.Sink { return proves{e} }, false, true, false},
		"Both":      {func(e *echo) sink.Sink { return both{e, gathers{e}, proves{e}} }, true, true, false},
		"Unordered": {func(e *echo) sink.Sink { return unordered{e} }, false, false, true},
	} {
		s := opened(t, &held{}, test.as, func(sink.Material) string { return "" })
		_, isGatherer := s.(sink.Gatherer)
		_, isProver := s.(sink.Prover)
		isUnordered := s.(sink.Unordered).Unordered()
		if isGatherer != test.gathers || isProver != test.proves || isUnordered != test.unordered {
			t.Errorf("%s: gathers %t, proves %t, unordered %t", name, isGatherer, isProver, isUnordered)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
