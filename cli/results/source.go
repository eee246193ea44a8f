// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/report"
)

// Source is the findings of a Scan. They are downloaded once; a file keeps them if they are read again. Close it.
type Source struct {
	reader *Reader
	scan   *executionv1.Scan
	// again says that the findings will be read more than once.
	again    bool
	file     *os.File
	complete bool
}

// Source makes a Source; again says that the findings will be read more than once.
func (r *Reader) Source(scan *executionv1.Scan, again bool) *Source {
	return &Source{reader: r, scan: scan, again: again}
}

// Scan is the Scan that has the findings.
func (s *Source) Scan() *executionv1.Scan { return s.scan }

// Each calls a function with every finding; it is a report.Source.
func (s *Source) Each(ctx context.Context, do func(element []byte) error) error {
	return report.Stream(s.Open)(ctx, do)
}

// Open opens findings.json as a stream.
func (s *Source) Open(ctx context.Context) (io.ReadCloser, error) {
	if s.complete {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read findings again: %w", err)
		}
		return io.NopCloser(s.file), nil
	}
	body, _, err := s.reader.OpenMetered(ctx, s.scan, Findings)
	if err != nil || !s.again {
		return body, err
	}
	if err := s.emptyFile(); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return &tee{ReadCloser: body, source: s}, nil
}

// emptyFile makes the file that keeps the downloaded findings.
func (s *Source) emptyFile() error {
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("keep findings: %w", err)
		}
		return s.file.Truncate(0)
	}
	file, err := os.CreateTemp("", "scanyard-findings-")
	if err != nil {
		return fmt.Errorf("keep findings in a temporary file (TMPDIR says where): %w", err)
	}
	s.file = file
	_ = os.Remove(file.Name()) // where an open file can lose its name, nothing stays behind; Close removes it elsewhere
	return nil
}

// Close removes the kept findings.
func (s *Source) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if removeErr := os.Remove(s.file.Name()); !errors.Is(removeErr, os.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	s.file = nil
	return err
}

// tee keeps what is read, and knows when all was read.
type tee struct {
	io.ReadCloser

	source *Source
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if n > 0 {
		if _, writeErr := t.source.file.Write(p[:n]); writeErr != nil {
			return n, fmt.Errorf("keep findings in a temporary file (TMPDIR says where): %w", writeErr)
		}
	}
	if errors.Is(err, io.EOF) {
		t.source.complete = true
	}
	return n, err
}

// OpenMetered is Open with a meter where stderr is a terminal.
func (r *Reader) OpenMetered(ctx context.Context, scan *executionv1.Scan, kind Kind) (io.ReadCloser, int64, error) {
	body, size, err := r.Open(ctx, scan, kind)
	if err != nil {
		return nil, 0, err
	}
	return r.meter(body, size, kind.String()+" of "+scan.Name), size, nil
}
