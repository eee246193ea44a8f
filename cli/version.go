// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/session"
)

// newVersionCommand makes the command version.
func newVersionCommand(s *session.Session) *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of this program and of the cluster",
		Long:              `Print the version of this program and of the Kubernetes that it talks to. The command doctor shows the operator's version.`,
		Example:           `  {{program}} version --client`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(s.Out, "scanyard %s (%s, %s/%s)\n", s.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if clientOnly {
				return nil
			}
			c, err := s.Clientset()
			if err != nil {
				return err
			}
			v, err := c.Discovery().ServerVersion()
			if err != nil {
				return s.Explain(fmt.Errorf("ask for the version of the cluster: %w", err))
			}
			fmt.Fprintf(s.Out, "kubernetes %s\n", v.GitVersion)
			return nil
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only the version of this program; asks no cluster")
	return cmd
}
