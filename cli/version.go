// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/cli/session"
)

// newVersionCommand makes the command version.
func newVersionCommand(s *session.Session) *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of this program and of the cluster",
		Long: `Print the version of this program and of the Kubernetes that it talks to. Where no cluster can be reached the reason stands on
stderr, and the exit code is 0 all the same: what the program is has been said.`,
		Example:           `  {{program}} version --client`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(s.Out, thisVersion(s))
			if clientOnly {
				return nil
			}
			v, err := clusterVersion(s)
			if err != nil {
				fmt.Fprintln(s.ErrOut, "kubernetes: not asked, since", s.Explain(err))
				return nil
			}
			fmt.Fprintf(s.Out, "kubernetes %s\n", v)
			return nil
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "only the version of this program; asks no cluster")
	return cmd
}

// thisVersion says which build this program is.
func thisVersion(s *session.Session) string {
	commit := ""
	if c := buildinfo.Commit(); c != "" {
		commit = c + ", "
	}
	return fmt.Sprintf("scanyard %s (%s%s, %s/%s)", s.Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func clusterVersion(s *session.Session) (string, error) {
	c, err := s.Clientset()
	if err != nil {
		return "", err
	}
	v, err := c.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask for the version of the cluster: %w", err)
	}
	return v.GitVersion, nil
}
