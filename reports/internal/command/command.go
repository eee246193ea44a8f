// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// New makes the command. What others read goes to out; getenv reads the environment.
func New(out io.Writer, getenv func(string) string) *cobra.Command {
	serve := newServe(out, getenv)
	root := &cobra.Command{
		Use: server.Name, Short: "Serve policy reports, images, SBOMs and vulnerability reports from SQL",
		SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs, RunE: serve.RunE,
	}
	root.Flags().AddFlagSet(serve.Flags())
	root.AddCommand(serve, newRelease(), newBackup(out, getenv), newRestore(out, getenv), newFsck(out, getenv))
	return root
}

// ExitCode is the code that an error of the command ends the process with.
func ExitCode(err error) int {
	var start *sqldb.StartError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errWrong):
		return exitWrong
	case errors.As(err, &start):
		return start.Exit
	}
	return 1
}
