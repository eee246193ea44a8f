// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/bundle"
	"github.com/scanyard/scanyard/cli/cascades"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/console"
	"github.com/scanyard/scanyard/cli/discover"
	"github.com/scanyard/scanyard/cli/doctor"
	"github.com/scanyard/scanyard/cli/exceptions"
	"github.com/scanyard/scanyard/cli/findings"
	"github.com/scanyard/scanyard/cli/registry"
	"github.com/scanyard/scanyard/cli/reports"
	"github.com/scanyard/scanyard/cli/scans"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/tenants"
	"github.com/scanyard/scanyard/cli/uninstall"
)

// Groups of commands in the help.
const (
	groupRun    = "run"
	groupRead   = "read"
	groupChange = "change"
	groupAdmin  = "admin"
)

// NewCommand builds the command line.
func NewCommand(s *session.Session) *cobra.Command {
	if s.Program == session.PluginProgram {
		return newPlugin(s)
	}
	root := &cobra.Command{
		Use:   "scanyard",
		Short: "Start, watch and evaluate security scans",
		Long: `Start, watch and evaluate security scans on Kubernetes.

It talks to the API server only, with your kubeconfig and your rights; results are
downloaded through links that the operator hands out.

Exit codes: 0 done, 1 errored, 2 findings reached the severity of --fail-on,
3 --timeout has passed, 4 with --fail-on: the scanner reached nothing.`,
	}
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run scans:"},
		&cobra.Group{ID: groupRead, Title: "Look at scans and their results:"},
		&cobra.Group{ID: groupChange, Title: "Change what runs:"},
		&cobra.Group{ID: groupAdmin, Title: "The installation:"},
	)
	// Commands are registered here, each with its group.
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, scans.NewScanCommand(s), scans.NewImportCommand(s), scans.NewWaitCommand(s), scans.NewTriggerCommand(s))
	add(groupRead, scans.NewGetCommand(s), scans.NewDescribeCommand(s), scans.NewLogsCommand(s),
		findings.NewFindingsCommand(s), findings.NewRawCommand(s), findings.NewDiffCommand(s),
		cascades.NewTreeCommand(s), cascades.NewCascadeCommand(s), tenants.NewQueueCommand(s), reports.NewReportsCommand(s),
		console.NewConsoleCommand(s))
	add(groupChange, scans.NewSuspendCommand(s), scans.NewResumeCommand(s), scans.NewCancelCommand(s), scans.NewRetryCommand(s), scans.NewDeleteCommand(s),
		exceptions.NewExceptionsCommand(s), registry.NewRegistryCommand(s))
	add(groupAdmin, doctor.NewDoctorCommand(s), bundle.NewSupportBundleCommand(s), tenants.NewSettingsCommand(s), discover.NewDiscoverCommand(s),
		uninstall.NewUninstallCommand(s), newVersionCommand(s))
	root.SetHelpCommandGroupID(groupAdmin)
	root.SetCompletionCommandGroupID(groupAdmin)
	return asRoot(s, root)
}

// newPlugin builds the command line of "kubectl prext": the commands for reports alone.
func newPlugin(s *session.Session) *cobra.Command {
	root := reports.NewReportsCommand(s)
	root.Use = "prext"
	return asRoot(s, root)
}

// asRoot gives a command the parts of a root command.
func asRoot(s *session.Session, root *cobra.Command) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors, root.DisableAutoGenTag = true, true, true
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: s.Program}
	if s.Args != nil {
		root.SetArgs(s.Args)
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	s.BindFlags(root.PersistentFlags())
	s.BindColor(root)
	root.Version = s.Version // for --version
	root.SetVersionTemplate(thisVersion(s) + "\n")
	root.AddCommand(newOptionsCommand())
	root.SetUsageTemplate(usageTemplate)
	// It fails only for a flag that does not exist.
	_ = root.RegisterFlagCompletionFunc("namespace", complete.Namespaces(s))
	finish(s, root)
	return root
}

// End prints the message of an error, if there is one, and returns the exit code.
func End(s *session.Session, err error) int {
	code, err := session.Code(err)
	if err != nil {
		fmt.Fprintln(s.ErrOut, s.ErrorWord(), s.Explain(err))
	}
	if err := s.Flush(); err != nil && code == session.CodeDone {
		return session.CodeErrored // the stream is gone, so no message can be printed
	}
	return code
}
