// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/tests/install"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// After the first Ctrl-C the demo cleans up; a second one ends it at once.
	context.AfterFunc(ctx, stop)
	err := newCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNotAsExpected):
		return 1
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted")
		return 130
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
}

// settings are what the flags say.
type settings struct {
	programs install.Programs
	dataDir  string
	keep     bool
}

func newCommand() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "demo",
		Short: "Six scans on a Kubernetes cluster of this machine's own processes",
		Long: `Starts a local Kubernetes cluster, installs Scanyard with Helm, runs six scans
and shows what becomes of them. Nothing outside this machine is contacted, and
nothing is left behind.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return s.programs.Check() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd.OutOrStdout(), s) },
	}
	flags := root.PersistentFlags()
	usual := install.Default(repository())
	flags.StringVar(
		&s.programs.Bin, "bin", usual.Bin,
		"folder of the binaries localcluster, operator, lurker, parser, hook, scanyard, reports-apiserver, forwarder and receiver",
	)
	flags.StringVar(&s.programs.Charts, "charts", usual.Charts, "folder of the charts")
	flags.StringVar(&s.programs.Helm, "helm", usual.Helm, "Helm, by path or name")
	flags.StringVar(&s.programs.Gitleaks, "gitleaks", usual.Gitleaks, "gitleaks, by path or name")
	flags.StringVar(
		&s.dataDir, "data-dir", "",
		"where the cluster keeps its files (default: a temporary folder for the demo, one in the user's cache folder for up and down)",
	)
	root.Flags().BoolVar(&s.keep, "keep", false, "leave the cluster running at the end")
	root.AddCommand(
		&cobra.Command{
			Use: "registry", Short: "A container registry looked at: images, SBOMs, vulnerabilities, who has what", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return demoRegistry(cmd.Context(), cmd.OutOrStdout(), s) },
		},
		&cobra.Command{
			Use: "up", Short: "Start a cluster with everything installed, to play with", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), cmd.OutOrStdout(), s) },
		},
		&cobra.Command{
			Use: "down", Short: "Stop the cluster of up, and remove what it made", Args: cobra.NoArgs,
			PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // needs no programs
			RunE:              func(cmd *cobra.Command, _ []string) error { return down(cmd.OutOrStdout(), s) },
		},
	)
	return root
}

// repository is the folder above that of this program, where make puts it.
func repository() string {
	self, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(filepath.Dir(self))
}

// playground is where "up" keeps its cluster.
func (s settings) playground() (string, error) {
	if s.dataDir != "" {
		return filepath.Abs(s.dataDir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w; give --data-dir", err)
	}
	return filepath.Join(cache, "scanyard", "up"), nil
}
