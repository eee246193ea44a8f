// SPDX-License-Identifier: Apache-2.0

package begin

import (
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// scanner is the one that is begun.
type scanner struct {
	scaffold

	pkg        string // of the parser, "mytool" for "my-tool"
	resultType string // "my-tool-json", or one that is read already
	withParser bool
}

// Scanner begins a scanner in a checkout: its parser, the parser's line in the registry, and a chart. With a result type that is read already it
// begins the chart only.
func Scanner(root, name, resultType string, say func(file string)) error {
	s, err := newScanner(root, name, resultType)
	if err != nil {
		return err
	}
	s.say = say
	return s.make(s.copyChart, s.register)
}

func newScanner(root, name, resultType string) (*scanner, error) {
	if err := checkName(name, "my-tool"); err != nil {
		return nil, err
	}
	s := &scanner{scaffold: scaffold{root: root, name: name}, pkg: packageOf(name), resultType: resultType}
	if s.withParser = resultType == ""; s.withParser {
		s.resultType = name + "-json"
	} else if err := s.known(); err != nil {
		return nil, err
	}
	if token.IsKeyword(s.pkg) || s.pkg == "main" || s.pkg == "init" {
		return nil, fmt.Errorf("NAME %q: %s cannot be the name of a Go package: add a word, as in NAME=%s-scan", name, s.pkg, name)
	}
	s.folders = []string{s.chart()}
	if s.withParser {
		s.folders = append(s.folders, s.parser())
	}
	s.files = s.where()
	s.words = strings.NewReplacer("PACKAGE", s.pkg, "RESULT-TYPE", s.resultType, "NAME", s.name)
	return s, s.vacant()
}

// importable is where the formats are listed that somebody may bring along, which a test of the parsers holds against them.
const importable = "charts/import/values.yaml"

var resultTypes = regexp.MustCompile(`(?m)^  - (\S+)\n`)

// known says whether there is a parser of the result type.
func (s *scanner) known() error {
	text, err := os.ReadFile(filepath.Join(s.root, importable))
	if err != nil {
		return err
	}
	var all []string
	for _, m := range resultTypes.FindAllStringSubmatch(string(text), -1) {
		if m[1] == s.resultType {
			return nil
		}
		all = append(all, m[1])
	}
	return fmt.Errorf("RESULT_TYPE: there is no parser for the result type %q: leave it out to begin a parser too, or take one of %s",
		s.resultType, strings.Join(all, ", "))
}

func (s *scanner) parser() string { return filepath.Join(s.root, "parsers", s.pkg) }

// where maps templates to where they go.
func (s *scanner) where() map[string]string {
	files := map[string]string{
		"scanner/chart/Chart.yaml":             filepath.Join(s.chart(), "Chart.yaml"),
		"scanner/chart/example.yaml":           filepath.Join(s.chart(), "example.yaml"),
		"scanner/chart/README.md.gotmpl":       filepath.Join(s.chart(), "README.md.gotmpl"),
		"helmignore":                           filepath.Join(s.chart(), ".helmignore"),
		"scanner/chart/templates/scanner.yaml": filepath.Join(s.chart(), "templates", "scanner.yaml"),
		"scanner/chart/templates/NOTES.txt":    filepath.Join(s.chart(), "templates", "NOTES.txt"),
	}
	if s.withParser {
		cases := filepath.Join(s.parser(), "testdata")
		maps.Copy(files, map[string]string{
			"scanner/parser/doc.go.txt":                        filepath.Join(s.parser(), "doc.go"),
			"scanner/parser/parser.go.txt":                     filepath.Join(s.parser(), s.pkg+".go"),
			"scanner/parser/parser_test.go.txt":                filepath.Join(s.parser(), s.pkg+"_test.go"),
			"scanner/parser/README.md.txt":                     filepath.Join(s.parser(), "README.md"),
			"scanner/parser/example.raw.json.txt":              filepath.Join(cases, "example.raw.json"),
			"scanner/parser/truncated.raw.json.txt":            filepath.Join(cases, "truncated.raw.json"),
			"scanner/parser/truncated.expected-error.json.txt": filepath.Join(cases, "truncated.expected-error.json"),
		})
	}
	return files
}

// modelScanner is the chart whose values every scanner chart has too.
const modelScanner = "test-scan"

func (s *scanner) copyChart() error {
	return s.copyModel(modelScanner, func(_, text string) (string, error) {
		own := strings.NewReplacer(
			"; `docker.io/securecodebox/parser-"+modelScanner+"` does too", "",
			"docker.io/securecodebox/scanner-"+modelScanner, "docker.io/scanyard/scanner-"+s.name,
			modelScanner, s.name,
		).Replace(text)
		if !s.withParser { // several scanners share the ParseDefinition
			own = strings.Replace(own, "\n  enabled: true\n  image:", "\n  enabled: false\n  image:", 1)
		}
		return own, nil
	})
}

var (
	parserImport = regexp.MustCompile(`^\t"github\.com/scanyard/scanyard/parsers/(\w+)"\n$`)
	parserEntry  = regexp.MustCompile(`^\t\t(\w+)\.Parser\(\),\n$`)
)

// register adds the parser to the registry, and its result type to those that can be imported.
func (s *scanner) register() error {
	if !s.withParser {
		return nil
	}
	err := s.scaffold.register("parsers/registry.go",
		line{parserImport, s.pkg, "\t\"github.com/scanyard/scanyard/parsers/" + s.pkg + "\"\n"},
		line{parserEntry, s.pkg, "\t\t" + s.pkg + ".Parser(),\n"},
	)
	if err != nil {
		return err
	}
	return s.scaffold.register(importable, line{resultTypes, s.resultType, "  - " + s.resultType + "\n"})
}
