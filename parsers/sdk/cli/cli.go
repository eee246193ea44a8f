// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/container"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Program is the binary: what it holds and where it runs.
type Program struct {
	// Parsers are all parsers there are.
	Parsers []sdk.Parser
	// Lookup finds one of them.
	Lookup func(resultType string) (sdk.Parser, error)
	// Env looks up an environment variable.
	Env func(string) string
	// Clock gives the time.
	Clock retry.Clock
	// Stdin, Stdout and Stderr are the usual three.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TerminationLog is the file that takes the last sentence, if it exists.
	TerminationLog process.LastWords
}

const usage = `parser makes findings of the raw results of security scanners.

Usage:
  parser RAW_URL FINDINGS_URL                  in the pod of a Scan, as the operator starts it
  parser file:///PATH FINDINGS_URL             in the scanner's pod of a Scan: waits until the scanner has ended; exits
                                               with 0 also when it fails, and the operator then starts a pod for it
  parser parse --type TYPE [options] FILE|-    on a terminal: findings of a file, to standard output
  parser list                                  the types of raw results that can be read
  parser version                               the version of this binary
  parser help                                  this text

Options of parse:
  --type TYPE       the type of the raw result, one of "parser list"
  --scan FILE       the Scan as JSON, for what parsers take from it (parameters, annotations) and for the scan
                    that findings name; without it these are empty
  --bare            findings as the parser makes them, without id, parsed_at and scan
  --strict          fail if a finding breaks the schema

FILE "-" is standard input. Findings are written while they are found: if the exit code is 1, throw them away. What
standard error says of what was reached is not an error.

Environment of a pod:
  SCAN_NAME, NAMESPACE          the Scan (required)
  SCAN_OBJECT                   the Scan as JSON, from an operator that hands it over; nothing is then asked of the
                                API server, and the counts are the last words of the container
  SCANNER_HANDOFF               the folder in which the lurker of the scanner's pod says that the scanner has ended
  CATEGORIES_UPLOAD_URL         where counts by category go that do not fit into last words
  CRASH_ON_FAILED_VALIDATION    "true": findings that break the schema are an error, else a warning
  FINDING_WHEN_UNREACHED        "true": one more finding where the raw result says that nothing was reached
  NODE_EXTRA_CA_CERTS           a PEM file of certificates to trust beside the system's
  KUBECONFIG                    how to reach the API server outside of a pod, without SCAN_OBJECT
`

// Run does what the arguments say and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	if err == nil {
		return 0
	}
	if container.IsFused(args) {
		// A container that fails here would have the scanner run again. The operator finds no outcome and starts the parser in
		// a pod of its own, whose end counts.
		fmt.Fprintln(p.Stderr, "parser: "+process.Sentence(err))
		return 0
	}
	if isContainer(args) {
		return p.TerminationLog.Fail(p.Stderr, "parser", err)
	}
	fmt.Fprintln(p.Stderr, "parser: "+process.Sentence(err))
	return 1
}

// isContainer reports whether the arguments are those of a pod: neither a command nor a question.
func isContainer(args []string) bool {
	return len(args) > 0 && (strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://") || container.IsFused(args))
}

func (p *Program) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(`no arguments; see "parser help"`)
	}
	switch args[0] {
	case "parse":
		return p.parse(ctx, args[1:])
	case "list":
		return p.list()
	case "version", "--version":
		_, err := fmt.Fprintln(p.Stdout, "parser", buildinfo.Version(), runtime.Version())
		return err
	case "help", "--help", "-h":
		_, err := io.WriteString(p.Stdout, usage)
		return err
	}
	if isContainer(args) {
		return p.container(ctx, args)
	}
	if len(args) > 1 {
		return errors.New(`the first argument is neither a command nor a URL; see "parser help"`)
	}
	return fmt.Errorf(`unknown command %q; see "parser help"`, redact.URLs(args[0]))
}

func (p *Program) list() error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	for _, parser := range p.Parsers {
		fmt.Fprintf(w, "%s\t%s\n", parser.ResultType, parser.Summary)
	}
	return w.Flush()
}

func (p *Program) container(ctx context.Context, args []string) error {
	log := slog.New(slog.NewTextHandler(p.Stderr, nil))
	arguments, err := container.ParseArguments(args, p.Env)
	if err != nil {
		return err
	}
	store, err := transfer.New(
		transfer.WithExtraCA(arguments.ExtraCA),
		transfer.WithClock(p.Clock),
		transfer.WithRetryNotice(func(err error, wait time.Duration) {
			log.Warn("the object store cannot be used, trying again", "error", err, "pause", wait)
		}),
	)
	if err != nil {
		return err
	}
	c := container.Config{
		Arguments: arguments, Lookup: p.Lookup, Env: p.Env, Store: store,
		Limits: sdk.DefaultLimits(), BufferLimit: container.DefaultBufferLimit, Clock: p.Clock, Log: log,
		Leave: p.TerminationLog.Leave,
	}
	if c.Handover = scanclient.FromEnvironment(p.Env); c.Handover == nil {
		if c.Client, err = p.client(arguments.Scan, log); err != nil {
			return err
		}
	}
	return container.Run(ctx, c)
}

// client reaches the Scan by the API, for an operator that hands nothing over.
func (p *Program) client(scan process.Scan, log *slog.Logger) (*scanclient.Client, error) {
	config, err := kubeapi.Config(p.Env)
	if err != nil {
		return nil, err
	}
	policy := kubeapi.Policy(kubeapi.DefaultPatience)
	policy.Clock = p.Clock
	policy.Notice = func(err error, pause time.Duration) {
		log.Warn("the API server cannot be used, trying again", "error", err, "pause", pause)
	}
	api, err := kubeapi.New(config, "scanyard-parser", policy)
	if err != nil {
		return nil, err
	}
	return scanclient.New(api, scan), nil
}
