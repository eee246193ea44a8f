// SPDX-License-Identifier: Apache-2.0

// Command hook holds all hooks in one binary. It finds out which one to be from, in this order:
//
//  1. its own name: a link or copy called hook-generic-webhook is generic-webhook, whatever the arguments are;
//  2. the first argument: hook generic-webhook URL…;
//  3. the environment variable HOOK, which charts set in spec.env, because the operator's arguments are URLs only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/cascading"
	"github.com/scanyard/scanyard/hooks/findingpostprocessing"
	"github.com/scanyard/scanyard/hooks/genericwebhook"
	"github.com/scanyard/scanyard/hooks/notification"
	"github.com/scanyard/scanyard/hooks/persistenceazuremonitor"
	"github.com/scanyard/scanyard/hooks/persistencedefectdojo"
	"github.com/scanyard/scanyard/hooks/persistencedependencytrack"
	"github.com/scanyard/scanyard/hooks/persistenceelastic"
	"github.com/scanyard/scanyard/hooks/persistencereports"
	"github.com/scanyard/scanyard/hooks/persistencestaticreport"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/updatefield"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/process"
)

// hooks is the list of all: a new one is a folder and a line here.
var hooks = []sdk.Hook{
	cascading.Hook(kubernetes, time.Now),
	findingpostprocessing.Hook(),
	genericwebhook.Hook(),
	notification.Hook(),
	persistenceazuremonitor.Hook(),
	persistencedefectdojo.Hook(),
	persistencedependencytrack.Hook(),
	persistenceelastic.Hook(),
	persistencereports.Hook(kubernetes),
	persistencestaticreport.Hook(),
	updatefield.Hook(),
}

func main() {
	ctx, stop := process.Context(context.Background())
	code := start(ctx, os.Args, os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// start runs the command and returns its exit code: 2 for a command line that makes no sense, and that of wrong settings
// where it is the operator's.
func start(ctx context.Context, args []string, env sdk.Env, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == cascading.CommandName {
		return cascading.Command(args[2:], stdout, stderr)
	}
	hook, urls, err := choose(args, env)
	switch {
	case err == nil && !wantsHelp(urls):
		return sdk.Run(ctx, hook, sdk.Process{
			Args: urls, Env: env, Stderr: stderr,
			TerminationLog: process.TerminationLog,
			Kubernetes:     func() (*rest.Config, error) { return kubernetes(env) },
		})
	case err == nil:
		printHook(stdout, hook)
		return 0
	}
	if done := builtin(args, stdout); done {
		return 0
	}
	fmt.Fprintf(stderr, "hook: %v\n", err)
	if isPod(args) {
		return exitcode.Configuration
	}
	return 2
}

// isPod reports whether the arguments are the operator's, which are URLs only: no other command line has only URLs.
func isPod(args []string) bool { return len(args) > 1 && isURL(args[1]) }

// choose finds the hook and what is left of the arguments for it.
func choose(args []string, env sdk.Env) (sdk.Hook, []string, error) {
	if name, ok := strings.CutPrefix(filepath.Base(args[0]), "hook-"); ok {
		hook, err := find(name)
		return hook, args[1:], err
	}
	args = args[1:]
	if len(args) > 0 {
		if hook, err := find(args[0]); err == nil {
			return hook, args[1:], nil
		}
	}
	if len(args) > 0 && isURL(args[0]) || len(args) == 0 {
		if name := env.Get("HOOK"); name != "" {
			hook, err := find(name)
			return hook, args, err
		}
	}
	switch {
	case len(args) == 0:
		return sdk.Hook{}, nil, errors.New("which hook? Name it as the first argument or in the environment variable HOOK; see hook list")
	case isURL(args[0]):
		// The argument is a credential: it is not repeated.
		return sdk.Hook{}, nil, errors.New("the environment variable HOOK is not set: set it in spec.env of the ScanCompletionHook to one of " + names())
	default:
		return sdk.Hook{}, nil, fmt.Errorf("there is no hook or command %q; see hook list and hook --help", args[0])
	}
}

func isURL(arg string) bool { return strings.Contains(arg, "://") }

func find(name string) (sdk.Hook, error) {
	for _, h := range hooks {
		if h.Name == name {
			return h, nil
		}
	}
	return sdk.Hook{}, fmt.Errorf("there is no hook %q; there are %s", name, names())
}

func names() string {
	var all []string
	for _, h := range hooks {
		all = append(all, h.Name)
	}
	return strings.Join(all, ", ")
}

func wantsHelp(args []string) bool {
	return len(args) == 1 && (args[0] == "--help" || args[0] == "-h")
}

// builtin runs the commands that are not hooks.
func builtin(args []string, stdout io.Writer) bool {
	if len(args) != 2 {
		return false
	}
	switch args[1] {
	case "list":
		table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
		for _, h := range hooks {
			fmt.Fprintf(table, "%s\t%s\t%s\n", h.Name, h.Type(), h.Summary)
		}
		return table.Flush() == nil
	case "version", "--version":
		fmt.Fprintln(stdout, buildinfo.Version())
		return true
	case "help", "--help", "-h":
		fmt.Fprintf(stdout, usage, names())
		return true
	}
	return false
}

const usage = `Runs a hook for one Scan. The operator starts it; by hand it is of use for trying things out.

  hook NAME RAW-URL FINDINGS-URL                            a hook that reads
  hook NAME RAW-URL FINDINGS-URL PUT-RAW-URL PUT-FINDINGS-URL   a hook that reads and writes
  hook NAME --help                                          what a hook does and its settings
  hook list                                                 all hooks
  hook explain-cascades --help                              which Scans findings would start, without a cluster
  hook version

NAME is one of %s. It may also come from the environment variable HOOK, or from the
name of the binary (hook-NAME). SCAN_NAME and NAMESPACE name the Scan. KUBECONFIG is used outside a cluster.
Exit code: 0 done, 1 failed (the reason is one line on stderr), 2 not understood; where another try cannot help it is 77
(credentials are refused) or 78 (a setting is missing or wrong).
`

func printHook(stdout io.Writer, h sdk.Hook) {
	fmt.Fprintf(stdout, "%s (%s): %s\n\nEnvironment:\n", h.Name, h.Type(), h.Summary)
	for _, s := range h.Settings {
		fmt.Fprintf(stdout, "  %s\n      %s\n", s.Name, s.Text)
	}
}

// kubernetes finds the API server.
func kubernetes(env sdk.Env) (*rest.Config, error) { return kubeapi.Config(env.Get) }
