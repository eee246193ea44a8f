// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
)

// Emit takes one finding. The finding may be reused after it returns. An error ends the parsing and must be returned
// by the parser as it is or wrapped.
type Emit func(*finding.Finding) error

// Parser makes findings of one kind of raw result.
type Parser struct {
	// ResultType is the type of raw result it reads, as in a ScanType's extractResults.type: "nmap-xml".
	ResultType string
	// Summary is one line for people: "Nmap XML (-oX)".
	Summary string
	// Kinds are the kinds of findings it makes.
	Kinds []Kind
	// Reach describes for people which part of the raw result shows whether anything was reached: "hosts that answered". Parsers
	// of formats without such a part say "nothing: …".
	Reach string
	// Parse reads in.Source and emits findings. An error means that there are none: whatever was emitted is dropped.
	Parse func(ctx context.Context, in *Input, emit Emit) error
}

// Input is all that a parser may look at.
type Input struct {
	// Source is the raw result.
	Source Source
	// Scan is the Scan it belongs to. Never nil, but all its fields may be empty.
	Scan *Scan
	// Env looks up an environment variable, "" if it is not set. Never nil.
	Env func(name string) string
	// Limits bound memory.
	Limits Limits

	reach outcome.Reached // what the parser has reported
}

// Source is a raw result that can be read from the start as often as wanted.
type Source interface {
	// Open returns a reader from the first byte. The caller closes it.
	Open(ctx context.Context) (io.ReadCloser, error)
}

// SourceFunc is a Source made of a function.
type SourceFunc func(ctx context.Context) (io.ReadCloser, error)

// Open calls the function.
func (f SourceFunc) Open(ctx context.Context) (io.ReadCloser, error) { return f(ctx) }

// Limits bound what a parser keeps in memory. Input that needs more is refused with an error that says so.
type Limits struct {
	// MaxElement is the largest single thing in bytes that is held at once: a JSON element, an XML tag. Parsers that
	// gather something larger, as a host with all its ports, bound it by a small multiple.
	MaxElement int
	// MaxDepth is how deep objects, arrays and XML elements may be nested.
	MaxDepth int
	// MaxHeld is how many bytes of findings a parser may hold back because they come later in the output than in the
	// input. Beyond it, it reads the input once more.
	MaxHeld int
}

// JSON are the limits for what reads JSON.
func (l Limits) JSON() finding.Limits {
	return finding.Limits{MaxElement: l.MaxElement, MaxDepth: l.MaxDepth}
}

// DefaultLimits fit a pod with 200 MiB.
func DefaultLimits() Limits {
	return Limits{MaxElement: 16 << 20, MaxDepth: 256, MaxHeld: 6 << 20}
}

// Run calls a parser. A crash of the parser becomes an error. Without an error, in.Reach returns what the scanner
// reached.
func Run(ctx context.Context, p Parser, in *Input, emit Emit) (err error) {
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("the parser for %s crashed, which is a defect of the parser: %v\n%s",
				p.ResultType, crash, debug.Stack())
		}
	}()
	in.reach = outcome.Reached{}
	if err := p.Parse(ctx, in, emit); err != nil {
		return err
	}
	return emitUnreached(in, emit)
}
