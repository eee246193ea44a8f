// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/findings/cascade/explain"
)

// CommandName is what the command is called.
const CommandName = "explain-cascades"

const commandUsage = `Tells which Scans the findings of a Scan would start, and why rules would start none. Needs no cluster.

  hook explain-cascades --scan scan.yaml --findings findings.json --rules rules.yaml
                        [--parse-definition definition.yaml] [--output yaml|json]

Files may be YAML or JSON. Rules may be several documents or a list, as kubectl get -o yaml prints it.
Exit code: 0 shown, 1 shown and the hook would fail, 2 invalid input.

`

// Command answers on the command line and returns the exit code.
func Command(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(CommandName, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, commandUsage)
		flags.PrintDefaults()
	}
	scan := flags.String("scan", "", "file with the Scan that has the findings")
	findings := flags.String("findings", "", "file with its findings (findings.json)")
	rules := flags.String("rules", "", "file with CascadingRules or ClusterCascadingRules")
	definition := flags.String("parse-definition", "", "file with the ParseDefinition of its results, for scopeLimiterAliases")
	output := flags.String("output", "yaml", "yaml or json")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2 // the flag package has said why
	}
	answer, err := explainFiles(explain.Files{Scan: *scan, Findings: *findings, Rules: *rules, ParseDefinition: *definition}, flags.Args())
	if err == nil {
		err = answer.Print(stdout, *output)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", CommandName, err)
		return 2
	}
	if answer.Error != "" {
		return 1
	}
	return 0
}

func explainFiles(files explain.Files, rest []string) (*explain.Explanation, error) {
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("%q was not expected; files are given by flags", rest[0])
	case files.Scan == "" || files.Findings == "" || files.Rules == "":
		return nil, errors.New("--scan, --findings and --rules are needed")
	}
	q, err := files.Question()
	if err != nil {
		return nil, err
	}
	return explain.Explain(q)
}
