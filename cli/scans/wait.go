// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/session"
)

// NewWaitCommand makes the command wait.
func NewWaitCommand(s *session.Session) *cobra.Command {
	a := &waitOptions{session: s}
	cmd := &cobra.Command{
		Use:   "wait SCAN",
		Short: "Wait for the end of a scan",
		Long: `Wait for the end of a scan, and show how it gets on. A scan that has ended is
evaluated at once.

Findings that an exception suppresses do not count for --fail-on.

Exit codes: 0 done, 1 errored, 2 findings of the severity of --fail-on or above,
3 --timeout has passed, 4 with --fail-on: the scanner reached nothing.`,
		Example: `  # Go on watching after Ctrl-C or --timeout
  {{program}} wait nmap

  # Evaluate it as a step of a pipeline
  {{program}} wait nmap --timeout 10m --fail-on medium --quiet`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(); err != nil {
				return err
			}
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			scan, err := s.Scan(cmd.Context(), c, namespace, args[0])
			if err != nil {
				return err
			}
			_, err = a.run(cmd.Context(), c, scan)
			return err
		},
	}
	a.bind(cmd)
	return cmd
}
