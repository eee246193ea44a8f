// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// ErrFailed is an adapter that failed a check. What failed is printed already.
var ErrFailed = errors.New("the adapter does not conform to scanyard.adapter/1")

// New makes the command adapter with conform below it.
func New(out io.Writer) *cobra.Command {
	o := Options{Out: out}
	command := &cobra.Command{
		Use: "conform PATH [-- ARGUMENTS]", Short: "Hold an adapter to scanyard.adapter/1, and print what came of it (TAP)", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, arguments []string) error {
			o.Path, o.Args = arguments[0], arguments[1:]
			passed, err := Run(c.Context(), o)
			if err == nil && !passed {
				err = ErrFailed
			}
			return err
		},
	}
	command.Flags().StringVar(&o.Database, "database", "", "file of a database for the adapter's db-update; without it matches are not checked")
	command.Flags().StringArrayVar(&o.Only, "only", nil, "name of a check; several times: only these are made")
	adapter := &cobra.Command{Use: "adapter", Short: "Look at programs around scanner engines"}
	adapter.AddCommand(command)
	return adapter
}
