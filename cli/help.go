// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/session"
)

// usageTemplate is cobra's, without the global flags on every page: the command options lists them, as
// in kubectl.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if not .AllChildCommandsHaveGroup}}

Further commands:{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}{{if .HasParent}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" shows more about a command.{{end}}

"{{.Root.DisplayName}} options" lists the flags that every command takes.
`

// newOptionsCommand lists the global flags.
func newOptionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "options", Short: "List the flags that every command takes",
		Long:              `List the flags that every command takes. They are those of kubectl, and --color.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Run:               func(cmd *cobra.Command, _ []string) { cmd.Print(cmd.InheritedFlags().FlagUsages()) },
	}
	return cmd
}

// program is the placeholder in examples for the name by which the program was called.
const program = "{{program}}"

// finish puts the program's name into examples, and names the remedy with errors of usage.
func finish(s *session.Session, cmd *cobra.Command) {
	cmd.Example = strings.ReplaceAll(cmd.Example, program, s.Program)
	cmd.DisableAutoGenTag = true
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = cobra.NoFileCompletions // arguments are not files
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError(cmd, err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		finish(s, c)
	}
	explain := cmd.FlagErrorFunc() // the command's own, as those above it are finished later
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, explain(cmd, err)) })
}

func usageError(cmd *cobra.Command, err error) error { return &wrongUsageError{cmd.CommandPath(), err} }

// wrongUsageError is an error of the command line itself.
type wrongUsageError struct {
	command string
	err     error
}

// Error says what is wrong and which help shows the right usage.
func (e *wrongUsageError) Error() string {
	return e.err.Error() + "\nSee: " + e.command + " --help"
}

// Unwrap returns the cause.
func (e *wrongUsageError) Unwrap() error { return e.err }
