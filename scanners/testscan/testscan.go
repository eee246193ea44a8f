// SPDX-License-Identifier: Apache-2.0

package testscan

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const usage = `test-scan writes an empty result file, for trying out an installation.

  test-scan FILE [--sleep DURATION] [--bytes N] [--exit CODE]

The parameters of a Scan follow the file, so that a Scan with
parameters ["--sleep", "1m"] takes a minute.

`

// ExitError asks the program to end with a code.
type ExitError struct{ Code int }

// Error names the code.
func (e *ExitError) Error() string { return fmt.Sprintf("ending with exit code %d, as asked", e.Code) }

// line is what a result with content is made of.
const line = "The quick brown fox jumps over the lazy dog 0123456789 ABCDEFGH.\n"

// Run does what the arguments say. Its error is an *ExitError where the arguments ask
// for a failure; the file is written before it.
func Run(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("test-scan", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() { fmt.Fprint(out, usage); fs.PrintDefaults() }
	sleep := fs.Duration("sleep", 0, "how long the scan takes")
	size := fs.Int64("bytes", 0, "size of the result in bytes")
	code := fs.Int("exit", 0, "exit code")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fs.Usage()
		return errors.New("the first argument must be the file to write")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unknown parameter %q; known are --sleep, --bytes and --exit", fs.Arg(0))
	}
	fmt.Fprintf(out, "test-scan: scanning nothing for %s\n", *sleep)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*sleep):
	}
	if err := write(args[0], *size); err != nil {
		return err
	}
	fmt.Fprintf(out, "test-scan: wrote %d bytes to %s\n", *size, args[0])
	if *code != 0 {
		return &ExitError{*code}
	}
	return nil
}

// write makes a file of size bytes.
func write(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for left := size; left > 0; left -= int64(len(line)) {
		if _, err := w.WriteString(line[:min(left, int64(len(line)))]); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
