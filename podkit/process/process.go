// SPDX-License-Identifier: Apache-2.0

// Package process is the life of a program in a scan's pod: its input from the environment, and how it ends.
//
//	environment ──► work ──► exit 0, and perhaps an outcome as termination message
//	                     └─► one sentence on stderr and as termination message, and an exit code that says whether to retry
//
// What it decides:
//
//   - The termination message goes into the file that the kubelet has mounted there. The file is never created: outside a
//     pod there is none.
//   - The sentence of a failure is one line with the bound of an outcome, [MaxWords]. It never has the trace of a crash or
//     the query of an address.
//   - An error knows its exit code, or it is an error that a retry may mend. Of several errors all must be final, since a
//     retry may mend the one that is not.
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

// Scan identifies the Scan that a program works for.
type Scan struct{ Namespace, Name string }

// ScanOf reads the Scan that the program works for. The error names every missing variable.
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

// Context ends when the kubelet, or a user at a terminal, asks the program to end.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, syscall.SIGTERM, os.Interrupt)
}

// TerminationLog is the file of the termination message in pods whose spec names no other.
const TerminationLog LastWords = "/dev/termination-log"

// MaxWords is how many bytes of a termination message the kubelet keeps.
const MaxWords = outcome.MaxSize

// LastWords is the file from which the kubelet copies a container's termination message into the pod's status.
type LastWords string

// Leave writes a termination message. The error wraps fs.ErrNotExist outside a pod, where there is no such file.
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

// Fail prints one sentence why a program ends, on its standard error and as its termination message, and returns the exit code.
func (l LastWords) Fail(stderr io.Writer, program string, err error) int {
	sentence := Sentence(err)
	fmt.Fprintf(stderr, "%s: %s\n", program, sentence)
	if err := l.Leave([]byte(sentence + "\n")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
	}
	return ExitCode(err)
}

// Sentence makes one line of an error that fits into a termination message.
func Sentence(err error) string {
	words, _, _ := strings.Cut(err.Error(), "\ngoroutine ")
	return text.Cut(text.Line(redact.URLs(words)), MaxWords-len("\n"))
}

// final is an error that every retry would return again.
type final struct {
	err  error
	code int
}

func (f *final) Error() string { return f.err.Error() }

func (f *final) Unwrap() error { return f.err }

// ExitCode is the code with which the error was marked.
func (f *final) ExitCode() int { return f.code }

// Final marks an error that a retry cannot mend with one of the codes of package exitcode. Nil stays nil.
func Final(err error, code int) error {
	if err == nil {
		return nil
	}
	return &final{err, code}
}

// Misconfigured marks an error that only another setting can mend. Nil stays nil.
func Misconfigured(err error) error { return Final(err, exitcode.Configuration) }

// coded is an error with an exit code. Code 1 means that a retry may succeed, whatever caused the error.
type coded interface{ ExitCode() int }

// ExitCode is the exit code of a container that has failed: a code of package exitcode if a retry cannot help, else 1. The
// outermost error that has a method ExitCode decides.
func ExitCode(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		// errors.As would skip the siblings of the error that it finds.
		switch e := err.(type) { //nolint:errorlint // each error is checked by itself
		case coded:
			return e.ExitCode()
		case interface{ Unwrap() []error }:
			return agreed(e.Unwrap())
		}
	}
	return 1
}

// agreed is the exit code of several errors: the code of the first one, unless a retry may mend one of them.
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
