// SPDX-License-Identifier: Apache-2.0

// Package process is the life of a program in a scan's pod: what it is told by its environment, and how it ends.
//
//	environment ──► work ──► exit 0, and perhaps an outcome as last words
//	                     └─► one sentence on stderr and as last words, and an exit code that says whether to try again
//
// What it decides:
//
//   - Last words go into the file that the kubelet has put there and reads. None is made: outside a pod there is none.
//   - The sentence of a failure is one line with the bound of an outcome, [MaxWords]. The trace of a crash and queries of
//     addresses stay out of it.
//   - An error knows its exit code, or is an error that another try may mend. Where several things went wrong, all of them
//     must be beyond mending, since the one that is not may go well in the next try.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/podkit/redact"
)

// Variables of the environment that the operator sets in the pods of parsers and hooks.
const (
	// EnvScanName names the Scan.
	EnvScanName = "SCAN_NAME"
	// EnvNamespace is the namespace of the Scan.
	EnvNamespace = "NAMESPACE"
	// EnvExtraCA is a PEM file of certificates to trust beside the system's.
	EnvExtraCA = "NODE_EXTRA_CA_CERTS"
)

// Scan is which Scan a program works for.
type Scan struct{ Namespace, Name string }

// ScanOf reads which Scan the program works for. The error names every variable that is missing.
func ScanOf(env func(name string) string) (Scan, error) {
	s := Scan{Namespace: env(EnvNamespace), Name: env(EnvScanName)}
	var missing []error
	for _, v := range []struct{ name, value string }{{EnvScanName, s.Name}, {EnvNamespace, s.Namespace}} {
		if v.value == "" {
			missing = append(missing, fmt.Errorf("environment variable %s is not set; the operator sets it in every Job", v.name))
		}
	}
	return s, Misconfigured(errors.Join(missing...))
}

// Context ends when the program is asked to end: by the kubelet, or by somebody at a terminal.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, syscall.SIGTERM, os.Interrupt)
}

// TerminationLog is the file of last words in pods whose spec names no other.
const TerminationLog LastWords = "/dev/termination-log"

// MaxWords is how many bytes of last words the kubelet keeps.
const MaxWords = outcome.MaxSize

// LastWords is the file from which the kubelet takes a container's last words into the pod's status.
type LastWords string

// Leave writes last words. The error wraps fs.ErrNotExist outside a pod, where there is no such file.
func (l LastWords) Leave(words []byte) error {
	if l == "" {
		return fmt.Errorf("write last words: %w", fs.ErrNotExist)
	}
	f, err := os.OpenFile(string(l), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("write last words: %w", err)
	}
	_, err = f.Write(words)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write last words: %w", err)
	}
	return nil
}

// Fail says in one sentence why a program ends, on its standard error and as its last words, and returns the exit code.
func (l LastWords) Fail(stderr io.Writer, program string, err error) int {
	sentence := Sentence(err)
	fmt.Fprintf(stderr, "%s: %s\n", program, sentence)
	if err := l.Leave([]byte(sentence + "\n")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
	}
	return ExitCode(err)
}

// Sentence makes one line of an error that fits into last words.
func Sentence(err error) string {
	words, _, _ := strings.Cut(err.Error(), "\ngoroutine ")
	return text.Cut(text.Line(redact.URLs(words)), MaxWords-len("\n"))
}

// final is an error that comes again in every try.
type final struct {
	err  error
	code int
}

func (f *final) Error() string { return f.err.Error() }

func (f *final) Unwrap() error { return f.err }

// ExitCode is the code that the error was marked with.
func (f *final) ExitCode() int { return f.code }

// Final marks an error that another try cannot mend with one of the codes of package exitcode. Nil stays nil.
func Final(err error, code int) error {
	if err == nil {
		return nil
	}
	return &final{err, code}
}

// Misconfigured marks an error that only another setting can mend. Nil stays nil.
func Misconfigured(err error) error { return Final(err, exitcode.Configuration) }

// coded is an error that knows how a container ends. Code 1 says that another try may go well, whatever caused the error.
type coded interface{ ExitCode() int }

// ExitCode is how a container ends that has failed: with a code of package exitcode where another try cannot help, else
// with 1. The outermost error that has a method ExitCode decides.
func ExitCode(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		// errors.As would pass over the errors that stand beside the one that it finds.
		switch e := err.(type) { //nolint:errorlint // each error is looked at by itself
		case coded:
			return e.ExitCode()
		case interface{ Unwrap() []error }:
			return agreed(e.Unwrap())
		}
	}
	return 1
}

// agreed is the exit code of several errors: that of the first, unless one of them may pass.
func agreed(errs []error) int {
	code := 1
	for i, err := range errs {
		one := ExitCode(err)
		if one == 1 {
			return 1
		}
		if i == 0 {
			code = one
		}
	}
	return code
}
