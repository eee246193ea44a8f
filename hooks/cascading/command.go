// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/scanyard/scanyard/apis/finding"
)

// CommandName is what the command is called.
const CommandName = "explain-cascades"

const commandUsage = `Tells which Scans the findings of a Scan would start, and why rules would start none. Needs no cluster.

  hook explain-cascades --scan scan.yaml --findings findings.json --rules rules.yaml
                        [--parse-definition definition.yaml] [--output yaml|json]

Files may be YAML or JSON. Rules may be several documents or a list, as kubectl get -o yaml prints it.
Exit code: 0 told, 1 told and the hook would fail, 2 not understood.

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
	explanation, err := explainFiles(*scan, *findings, *rules, *definition, flags.Args())
	if err == nil {
		err = explanation.Print(stdout, *output)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", CommandName, err)
		return 2
	}
	if explanation.Error != "" {
		return 1
	}
	return 0
}

func explainFiles(scan, findings, rules, definition string, rest []string) (*Explanation, error) {
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("%q was not expected; files are given by flags", rest[0])
	case scan == "" || findings == "" || rules == "":
		return nil, errors.New("--scan, --findings and --rules are needed")
	}
	q := Question{Findings: func() (io.ReadCloser, error) { return os.Open(findings) }}
	var err error
	if q.Scan, err = readOne(scan); err != nil {
		return nil, err
	}
	if q.Rules, err = readObjects(rules); err != nil {
		return nil, err
	}
	if definition != "" {
		if q.ParseDefinition, err = readOne(definition); err != nil {
			return nil, err
		}
	}
	return Explain(q)
}

func readOne(path string) (finding.Object, error) {
	objects, err := readObjects(path)
	if err == nil && len(objects) != 1 {
		err = fmt.Errorf("%s holds %d objects, want one", path, len(objects))
	}
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// readObjects reads YAML documents, or JSON; lists count as what they hold.
func readObjects(path string) ([]finding.Object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []finding.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		asJSON, err := utilyaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		value, err := finding.DecodeValue(asJSON, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if value == nil {
			continue // an empty document
		}
		object, ok := value.(finding.Object)
		if !ok {
			return nil, fmt.Errorf("%s: a document is no object", path)
		}
		all = append(all, flatten(object)...)
	}
}

func flatten(object finding.Object) []finding.Object {
	items, _ := object.Get("items")
	list, ok := items.([]any)
	if !ok {
		return []finding.Object{object}
	}
	var all []finding.Object
	for _, item := range list {
		if o, ok := item.(finding.Object); ok {
			all = append(all, o)
		}
	}
	return all
}
