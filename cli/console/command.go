// SPDX-License-Identifier: Apache-2.0

// Package console has the command that serves the console on this machine, with the rights of the kubeconfig.
package console

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/session"
	server "github.com/scanyard/scanyard/console"
)

// NewConsoleCommand makes the command console.
func NewConsoleCommand(s *session.Session) *cobra.Command {
	var address string
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Look at scans and findings in a browser",
		Long: `Look at scans and findings in a browser. The console runs on this machine until Ctrl-C, and reads
the cluster with your kubeconfig and your rights; nobody else reaches it.

It prints an address with a code that opens the console once. Start the command again for another.`,
		Example: `  {{program}} console

  # On a port of your choice, for a bookmark
  {{program}} console --address 127.0.0.1:8123`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), s, address, open || s.Live && !cmd.Flags().Changed("open"))
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:0", "where to listen, a loopback `host:port`; port 0 takes any that is free")
	cmd.Flags().BoolVar(&open, "open", false, "open a browser; on a terminal that is the default, --open=false leaves it")
	return cmd
}

func run(ctx context.Context, s *session.Session, address string, open bool) error {
	config, err := s.Config()
	if err != nil {
		return err
	}
	namespace, err := s.Namespace()
	if err != nil {
		return err
	}
	local, err := server.Listen(ctx, server.Options{
		Config: config, Namespace: namespace, Version: s.Version, Address: address, Now: s.Now,
		Failed: func(err error) { fmt.Fprintln(s.ErrOut, "console:", s.Explain(err)) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Out, local.URL)
	if err := s.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(s.ErrOut, "Open this address in a browser. Ctrl-C ends the console.")
	if open {
		browse(ctx, local.URL)
	}
	return local.Serve(ctx)
}

// browse opens a browser where there is one. The address is printed in any case, so that nothing is lost where it fails.
func browse(ctx context.Context, url string) {
	program := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if program == "" {
		program = "xdg-open"
	}
	_ = exec.CommandContext(context.WithoutCancel(ctx), program, url).Start()
}
