// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/version"
)

// Exit codes beside 0 and 1.
const (
	exitWrong   = 2
	exitInUse   = 3
	exitNewer   = 4
	exitDamaged = 5
)

// errWrong marks errors of the command line.
var errWrong = errors.New("the command line is wrong")

// wrong is an error of the command line. Its text names the flag.
type wrong struct{ error }

// Is makes each such error an errWrong.
func (wrong) Is(target error) bool { return target == errWrong }

func wrongf(format string, values ...any) error { return wrong{fmt.Errorf(format, values...)} }

// errUnsound is the error of a store that Verify found wrong.
var errUnsound = errors.New("the store is not sound")

// ExitCode is the code that an error of the command ends the process with.
func ExitCode(err error) int {
	for _, known := range []struct {
		err  error
		code int
	}{{errWrong, exitWrong}, {store.ErrInUse, exitInUse}, {store.ErrNewer, exitNewer}, {store.ErrDamaged, exitDamaged}} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// New makes the command. What others read goes to out, logs go to logs.
func New(out, logs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: "receiver", Short: "Take forwarded records, store each once, and say what of each stream is there",
		Version: version.Text(), SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrongf("command %q is not known: use run, streams, records or verify", args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return errors.Join(command.Help(), wrongf("a command is missing: use run, streams, records or verify"))
		},
	}
	root.SetOut(out)
	root.SetErr(logs)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong{err} })
	root.AddCommand(newRun(out, logs), newStreams(out), newRecords(out), newVerify(out))
	for _, command := range root.Commands() {
		command.Args = func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrongf("%q is too much: %s takes flags only", args[0], command.Name())
			}
			return nil
		}
	}
	return root
}

// offline is a command that looks at a store that no receiver uses.
func offline(use, short string, look func(*store.Store) error) *cobra.Command {
	var directory string
	command := &cobra.Command{Use: use, Short: short, RunE: func(*cobra.Command, []string) (err error) {
		if directory == "" {
			return wrongf("--store is missing: name the directory of the store")
		}
		opened, err := store.Open(store.Options{Directory: directory, ReadOnly: true, Now: time.Now}) //nolint:forbidigo // the command line has the clock
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		return look(opened)
	}}
	command.Flags().StringVar(&directory, "store", "", "`directory` of the store; no receiver may be using it")
	return command
}

func newStreams(out io.Writer) *cobra.Command {
	var output string
	command := offline("streams", "List the streams of a store with their verdicts", func(opened *store.Store) error {
		if output != "json" && output != "table" {
			return wrongf("--output must be table or json, is %q", output)
		}
		lines, err := receiver.Streams(opened)
		if err != nil {
			return err
		}
		if output == "json" {
			return json.NewEncoder(out).Encode(lines)
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "CLUSTER\tTENANT\tKIND\tNAME\tUID\tREVISION\tCOMPLETENESS\tRECORDS\tMISSING")
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\n",
				line.ClusterID, line.Tenant, line.Kind, line.Name, line.UID, line.Revision, line.Completeness, line.Records, line.Missing)
		}
		return table.Flush()
	})
	command.Flags().StringVar(&output, "output", "table", "table or json")
	return command
}

func newRecords(out io.Writer) *cobra.Command {
	return offline("records", "Print the records of a store as CloudEvents, one in a line, in the order of their arrival", func(opened *store.Store) error {
		return receiver.WriteRecords(out, opened, 0, min(opened.LastNumber(), math.MaxUint64-1))
	})
}

func newVerify(out io.Writer) *cobra.Command {
	return offline("verify", "Read a whole store and compare records, identities, streams and counters", func(opened *store.Store) error {
		report, err := opened.Verify()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(report); err != nil {
			return err
		}
		if len(report.Wrong) > 0 {
			return fmt.Errorf("%w: %s", errUnsound, strings.Join(report.Wrong[:min(3, len(report.Wrong))], "; "))
		}
		return nil
	})
}
