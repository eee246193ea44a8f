// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/parsers/sdk"
)

type parseOptions struct {
	resultType, scanFile, input string
	bare, strict                bool
}

func readParseOptions(args []string) (parseOptions, error) {
	o := parseOptions{}
	flags := flag.NewFlagSet("parse", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.resultType, "type", "", "")
	flags.StringVar(&o.scanFile, "scan", "", "")
	flags.BoolVar(&o.bare, "bare", false, "")
	flags.BoolVar(&o.strict, "strict", false, "")
	var files []string
	for len(args) > 0 { // options may also follow the file
		if err := flags.Parse(args); err != nil {
			return o, err
		}
		if args = flags.Args(); len(args) > 0 {
			files, args = append(files, args[0]), args[1:]
		}
	}
	switch {
	case o.resultType == "":
		return o, errors.New(`parse needs --type; "parser list" shows the types`)
	case len(files) != 1:
		return o, errors.New(`parse needs one FILE, or "-" for standard input`)
	case o.bare && o.strict:
		return o, errors.New("--strict has no use with --bare: bare findings lack what the schema requires")
	}
	o.input = files[0]
	return o, nil
}

func (p *Program) parse(ctx context.Context, args []string) error {
	o, err := readParseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(p.Stdout, usage)
		return err
	}
	if err != nil {
		return err
	}
	parser, err := p.Lookup(o.resultType)
	if err != nil {
		return err
	}
	scan := &sdk.Scan{}
	if o.scanFile != "" {
		data, err := os.ReadFile(o.scanFile)
		if err != nil {
			return err
		}
		if scan, err = sdk.DecodeScan(data); err != nil {
			return fmt.Errorf("%s: %w", o.scanFile, err)
		}
	}
	source, closeSource, err := p.source(o.input)
	if err != nil {
		return err
	}
	defer closeSource()
	encoder := sdk.NewEncoder(p.Stdout, parser, scan.Info(), p.Clock.Now())
	if o.bare {
		encoder = sdk.NewBareEncoder(p.Stdout)
	}
	in := &sdk.Input{Source: source, Scan: scan, Env: p.Env, Limits: sdk.DefaultLimits()}
	if err := sdk.Run(ctx, parser, in, encoder.Emit); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	if _, err := io.WriteString(p.Stdout, "\n"); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	p.reportReach(in.Reach(), encoder.Stats.Count)
	if o.strict {
		return encoder.Strict()
	}
	return nil
}

// reportReach writes to standard error what findings alone do not show: that the scanner reached nothing, or that an
// empty list does not say whether it did.
func (p *Program) reportReach(reach outcome.Reached, findings int) {
	switch {
	case reach.Status == outcome.False:
		fmt.Fprintln(p.Stderr, "parser: nothing was reached: "+reach.Message)
	case reach.Status == outcome.Unknown && findings == 0:
		fmt.Fprintln(p.Stderr, "parser: whether anything was reached is not known: "+reach.Message)
	}
}

// source opens a file as often as wanted. Standard input is spooled to a temporary file while it is read for the
// first time, for a parser that wants to read it again.
func (p *Program) source(name string) (source sdk.Source, closeSource func(), err error) {
	if name != "-" {
		if info, err := os.Stat(name); err != nil {
			return nil, nil, err
		} else if info.Mode().IsRegular() {
			open := func(context.Context) (io.ReadCloser, error) { return os.Open(name) }
			return sdk.SourceFunc(open), func() {}, nil
		}
		f, err := os.Open(name) // a pipe or a device: read once, like standard input
		if err != nil {
			return nil, nil, err
		}
		spool := &spool{in: f}
		return spool, func() { spool.remove(); _ = f.Close() }, nil
	}
	spool := &spool{in: p.Stdin}
	return spool, spool.remove, nil
}

// spool is a Source over something that can be read only once. It is for one goroutine.
type spool struct {
	in     io.Reader
	file   *os.File
	copied int64 // bytes of in that are in file
}

// Open returns a reader from the first byte. Each has its own place: a parser may open the second before it has
// finished the first.
func (s *spool) Open(context.Context) (io.ReadCloser, error) {
	if s.file == nil {
		file, err := os.CreateTemp("", "parser-input-*")
		if err != nil {
			return nil, fmt.Errorf("make a copy of the input: %w", err)
		}
		s.file = file
	}
	return io.NopCloser(&spoolReader{spool: s}), nil
}

// spoolReader reads what is copied from the copy, and what is not from the input.
type spoolReader struct {
	spool  *spool
	offset int64
}

func (r *spoolReader) Read(p []byte) (n int, err error) {
	s := r.spool
	defer func() { r.offset += int64(n) }()
	if left := s.copied - r.offset; left > 0 {
		return s.file.ReadAt(p[:min(int64(len(p)), left)], r.offset)
	}
	n, err = s.in.Read(p)
	if _, failed := s.file.WriteAt(p[:n], s.copied); failed != nil {
		return 0, fmt.Errorf("make a copy of the input: %w", failed)
	}
	s.copied += int64(n)
	return n, err // io.EOF has to stay what it is
}

func (s *spool) remove() {
	if s.file == nil {
		return
	}
	_ = s.file.Close()           // it was only ever a copy
	_ = os.Remove(s.file.Name()) // as above
}
