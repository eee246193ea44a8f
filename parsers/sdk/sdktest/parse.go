// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// Case is what a parser is given. The zero values of all but Raw do.
type Case struct {
	// Raw is the raw result.
	Raw []byte
	// Open gives the raw result instead, where it is too large to be held.
	Open func() io.Reader
	// Scan is the Scan it belongs to.
	Scan *sdk.Scan
	// Env holds the environment.
	Env map[string]string
	// Limits replace sdk.DefaultLimits.
	Limits *sdk.Limits
	// Opened counts how often the raw result was read, if it is set.
	Opened *atomic.Int64
}

func (c Case) input() *sdk.Input {
	in := &sdk.Input{
		Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) {
			if c.Opened != nil {
				c.Opened.Add(1)
			}
			if c.Open != nil {
				return io.NopCloser(c.Open()), nil
			}
			return io.NopCloser(bytes.NewReader(c.Raw)), nil
		}),
		Scan:   c.Scan,
		Env:    func(name string) string { return c.Env[name] },
		Limits: sdk.DefaultLimits(),
	}
	if in.Scan == nil {
		in.Scan = &sdk.Scan{}
	}
	if c.Limits != nil {
		in.Limits = *c.Limits
	}
	return in
}

// Parse returns the findings as the parser makes them, as a JSON array.
func Parse(t testing.TB, p sdk.Parser, c Case) ([]byte, error) {
	t.Helper()
	out := &bytes.Buffer{}
	encoder := sdk.NewBareEncoder(out)
	if err := sdk.Run(t.Context(), p, c.input(), encoder.Emit); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		t.Fatalf("write the findings: %v", err)
	}
	return out.Bytes(), nil
}

// Reach parses and returns what the parser reports about reached targets.
func Reach(t testing.TB, p sdk.Parser, c Case) (outcome.Reached, error) {
	t.Helper()
	in := c.input()
	err := sdk.Run(t.Context(), p, in, func(*finding.Finding) error { return nil })
	return in.Reach(), err
}

// Count parses and counts, without keeping anything.
func Count(t testing.TB, p sdk.Parser, c Case) (int, error) {
	t.Helper()
	encoder := sdk.NewBareEncoder(io.Discard)
	err := sdk.Run(t.Context(), p, c.input(), encoder.Emit)
	return encoder.Stats.Count, err
}

// Fuzz asks of any input that the parser does not crash, that its output depends on the bytes alone and not on how
// they arrive, and that memory stays in proportion.
func Fuzz(t *testing.T, p sdk.Parser, raw []byte) {
	t.Helper()
	limits := sdk.Limits{MaxElement: 1 << 16, MaxDepth: 50, MaxHeld: 1 << 12}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	whole, err := Parse(t, crashing(p), Case{Raw: raw, Limits: &limits})
	runtime.ReadMemStats(&after)
	const fixed, perByte = 8 << 20, 2000
	if used := after.TotalAlloc - before.TotalAlloc; used > fixed+perByte*uint64(len(raw)) {
		t.Errorf("took %d bytes for an input of %d", used, len(raw))
	}
	pieces, again := Parse(t, crashing(p), Case{
		Open: func() io.Reader { return iotest.OneByteReader(bytes.NewReader(raw)) }, Limits: &limits,
	})
	if (err == nil) != (again == nil) || !bytes.Equal(whole, pieces) {
		t.Errorf("at once: %s (%v)\nin pieces: %s (%v)", whole, err, pieces, again)
	}
	reader := finding.NewReader(bytes.NewReader(whole), finding.Limits{})
	for err == nil {
		_, err = reader.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped here
			t.Errorf("the output is not a JSON array: %v", err)
		}
	}
}

// crashing is the parser without the net that turns a crash into an error.
func crashing(p sdk.Parser) sdk.Parser {
	inner := p.Parse
	p.Parse = func(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
		done := make(chan error, 1)
		go func() { done <- inner(ctx, in, emit) }() // sdk.Run cannot recover for another goroutine
		return <-done
	}
	return p
}

// Benchmark measures a parser over an input that is made again for each run.
func Benchmark(b *testing.B, p sdk.Parser, open func() io.Reader) {
	b.Helper()
	size, err := io.Copy(io.Discard, open())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	findings := 0
	for b.Loop() {
		n, err := Count(b, p, Case{Open: open})
		if err != nil {
			b.Fatal(err)
		}
		findings += n
	}
	b.ReportMetric(float64(findings)/b.Elapsed().Seconds(), "findings/s")
}
