// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed = 1
	exitWrong  = 2
)

// Options are what the command takes from its process.
type Options struct {
	// Out is for what others read, Err for people.
	Out, Err io.Writer
	Version  string
	// Getenv reads the environment.
	Getenv func(string) string
}

// New makes the command.
func New(o Options) *cobra.Command {
	root := &cobra.Command{
		Use: "forwarder", Short: "Send results of Scans to far ends, provably",
		Version: o.Version, SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong(fmt.Errorf("the command %q is not known: see forwarder --help", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(cmd.Help(), wrong(errors.New("a command is missing: use run, send, map, cluster-id or conformance")))
		},
	}
	root.SetOut(o.Out)
	root.SetErr(o.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong(err) })
	root.AddCommand(newRun(o), newMap(o), newSend(o), newClusterID(o), newConformance(o))
	return root
}

// wrongError is a mistake of whoever has called the program.
type wrongError struct{ error }

func (e *wrongError) Unwrap() error { return e.error }

func wrong(err error) error { return &wrongError{err} }

// wrongFlag names the flag that is wrong.
func wrongFlag(flag string, err error) error { return wrong(fmt.Errorf("--%s: %w", flag, err)) }

// noArgs refuses arguments.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrong(fmt.Errorf("the argument %q is one too many: all settings are flags", args[0]))
	}
	return nil
}

// ExitCode is the code that an error of the command ends the process with.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[*wrongError](err); ok {
		return exitWrong
	}
	return exitFailed
}
