// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/apis/transfer"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/container"
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
	Clock container.Clock
	// Stdin, Stdout and Stderr are the usual three.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TerminationLog is the file that takes the last sentence, if it exists.
	TerminationLog string
}

const usage = `parser makes findings of the raw results of security scanners.

Usage:
  parser RAW_URL FINDINGS_URL                  in the pod of a Scan, as the operator starts it
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

FILE "-" is standard input. Findings are written while they are found: if the exit code is 1, throw them away.

Environment of a pod:
  SCAN_NAME, NAMESPACE          the Scan (required)
  CRASH_ON_FAILED_VALIDATION    "true": findings that break the schema are an error, else a warning
  NODE_EXTRA_CA_CERTS           a PEM file of certificates to trust beside the system's
  KUBECONFIG                    how to reach the API server outside of a pod
`

// Run does what the arguments say and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	if err == nil {
		return 0
	}
	sentence := oneLine(err)
	fmt.Fprintln(p.Stderr, "parser: "+sentence)
	if isContainer(args) {
		p.leave(sentence)
	}
	return 1
}

// isContainer tells whether the arguments are those of a pod: neither a command nor a question.
func isContainer(args []string) bool {
	return len(args) > 0 && (strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://"))
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
		_, err := fmt.Fprintln(p.Stdout, "parser "+version())
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
	return fmt.Errorf(`unknown command %q; see "parser help"`, transfer.Redact(args[0]))
}

func (p *Program) list() error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	for _, parser := range p.Parsers {
		fmt.Fprintf(w, "%s\t%s\n", parser.ResultType, parser.Summary)
	}
	return w.Flush()
}

// version is what the Go command knows of the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, revision := info.Main.Version, ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = " " + s.Value
		}
	}
	return version + revision + " " + info.GoVersion
}

func (p *Program) container(ctx context.Context, args []string) error {
	log := slog.New(slog.NewTextHandler(p.Stderr, nil))
	arguments, err := container.ParseArguments(args, p.Env)
	if err != nil {
		return err
	}
	store, err := transfer.New(
		transfer.WithExtraCA(arguments.ExtraCA),
		transfer.WithClock(p.Clock.Now, p.Clock.Sleep),
		transfer.WithRetryNotice(func(err error, wait time.Duration) {
			log.Warn("the object store can not be used, trying again", "error", err, "pause", wait)
		}),
	)
	if err != nil {
		return err
	}
	config, err := p.cluster()
	if err != nil {
		return err
	}
	scans, err := container.NewScans(config, arguments.Namespace, arguments.ScanName, container.DefaultPatience, p.Clock, log)
	if err != nil {
		return err
	}
	return container.Run(ctx, container.Config{
		Arguments: arguments, Lookup: p.Lookup, Env: p.Env, Scans: scans, Store: store,
		Limits: sdk.DefaultLimits(), BufferLimit: container.DefaultBufferLimit, Now: p.Clock.Now, Log: log,
	})
}

// cluster finds the API server: the pod's, else that of KUBECONFIG.
func (p *Program) cluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if err == nil {
		return config, nil
	}
	if file := p.Env("KUBECONFIG"); file != "" {
		if config, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
			return nil, fmt.Errorf("read KUBECONFIG: %w", err)
		}
		return config, nil
	}
	return nil, fmt.Errorf("find the API server: %w", err)
}

const maxSentence = 1500 // bytes; the kubelet keeps 4096 of a termination log, and conditions should be shorter

// oneLine makes one line of an error. The trace of a crash stays out.
func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\ngoroutine ")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxSentence {
		return text
	}
	end := maxSentence
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// leave writes the last sentence where the kubelet looks for it. Not having such a file is normal outside of a pod.
func (p *Program) leave(sentence string) {
	if p.TerminationLog == "" {
		return
	}
	f, err := os.OpenFile(p.TerminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	_, err = io.WriteString(f, sentence)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "parser: write %s: %v\n", p.TerminationLog, err)
	}
}
