// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/parsers"
)

//go:embed template
var templates embed.FS

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: newscanner ROOT NAME [RESULT-TYPE]")
		os.Exit(2)
	}
	resultType := ""
	if len(os.Args) == 4 {
		resultType = os.Args[3]
	}
	s, err := newScanner(os.Args[1], os.Args[2], resultType)
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "newscanner:", err)
		os.Exit(1)
	}
}

// scanner is the one that is begun.
type scanner struct {
	root       string
	name       string // as users write it, "my-tool"
	pkg        string // of the parser, "mytool"
	resultType string // "my-tool-json", or one that is read already
	withParser bool
}

// A chart's name, and the name of a ScanType.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const maxName = 40

func newScanner(root, name, resultType string) (*scanner, error) {
	if !validName.MatchString(name) || len(name) > maxName {
		return nil, fmt.Errorf(
			"NAME %q: begin with a lower-case letter, then letters and digits, with single hyphens between them, at most %d characters: NAME=my-tool",
			name, maxName,
		)
	}
	s := &scanner{root: root, name: name, pkg: strings.ReplaceAll(name, "-", ""), resultType: resultType}
	if s.withParser = resultType == ""; s.withParser {
		s.resultType = name + "-json"
	} else if _, err := parsers.For(resultType); err != nil {
		return nil, fmt.Errorf("RESULT_TYPE: %w; leave it out to begin a parser too", err)
	}
	if token.IsKeyword(s.pkg) || s.pkg == "main" || s.pkg == "init" {
		return nil, fmt.Errorf("NAME %q: %s cannot be the name of a Go package: add a word, as in NAME=%s-scan", name, s.pkg, name)
	}
	for _, dir := range []string{s.parser(), s.chart()} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists already: choose another NAME, or remove it", dir)
		}
	}
	return s, nil
}

func (s *scanner) parser() string { return filepath.Join(s.root, "parsers", s.pkg) }

func (s *scanner) chart() string { return filepath.Join(s.root, "charts", s.name) }

// files maps templates to where they go.
func (s *scanner) files() map[string]string {
	files := map[string]string{
		"chart/Chart.yaml":             filepath.Join(s.chart(), "Chart.yaml"),
		"chart/example.yaml":           filepath.Join(s.chart(), "example.yaml"),
		"chart/README.md.gotmpl":       filepath.Join(s.chart(), "README.md.gotmpl"),
		"chart/helmignore":             filepath.Join(s.chart(), ".helmignore"),
		"chart/templates/scanner.yaml": filepath.Join(s.chart(), "templates", "scanner.yaml"),
		"chart/templates/NOTES.txt":    filepath.Join(s.chart(), "templates", "NOTES.txt"),
	}
	if s.withParser {
		cases := filepath.Join(s.parser(), "testdata")
		maps.Copy(files, map[string]string{
			"parser/doc.go.txt":                        filepath.Join(s.parser(), "doc.go"),
			"parser/parser.go.txt":                     filepath.Join(s.parser(), s.pkg+".go"),
			"parser/parser_test.go.txt":                filepath.Join(s.parser(), s.pkg+"_test.go"),
			"parser/README.md.txt":                     filepath.Join(s.parser(), "README.md"),
			"parser/example.raw.json.txt":              filepath.Join(cases, "example.raw.json"),
			"parser/truncated.raw.json.txt":            filepath.Join(cases, "truncated.raw.json"),
			"parser/truncated.expected-error.json.txt": filepath.Join(cases, "truncated.expected-error.json"),
		})
	}
	return files
}

// begin writes all files, and takes them back if something goes wrong. The registry comes last: without its line nothing
// else changes what there is.
func (s *scanner) begin() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.chart()), os.RemoveAll(s.parser())) //nolint:gosec // what newScanner saw was not there
		}
	}()
	files := s.files()
	for _, from := range slices.Sorted(maps.Keys(files)) {
		text, err := templates.ReadFile("template/" + from)
		if err != nil {
			return err
		}
		if err := s.write(files[from], s.fill(string(text))); err != nil {
			return err
		}
	}
	if err := s.copyChart(); err != nil || !s.withParser {
		return err
	}
	return s.register()
}

func (s *scanner) fill(text string) string {
	return strings.NewReplacer("PACKAGE", s.pkg, "RESULT-TYPE", s.resultType, "NAME", s.name).Replace(text)
}

// modelChart is the chart whose values every scanner chart has too.
const modelChart = "test-scan"

// copyChart takes from the model what charts share, so that a new chart never lags behind.
func (s *scanner) copyChart() error {
	for _, file := range []string{"values.yaml", "Chart.lock"} {
		text, err := os.ReadFile(filepath.Join(s.root, "charts", modelChart, file)) //nolint:gosec // the caller names the repository
		if err != nil {
			return err
		}
		own := strings.NewReplacer(
			"; `docker.io/securecodebox/parser-"+modelChart+"` does too", "",
			"docker.io/securecodebox/scanner-"+modelChart, "docker.io/scanyard/scanner-"+s.name,
			modelChart, s.name,
		).Replace(string(text))
		if !s.withParser { // several scanners share the ParseDefinition
			own = strings.Replace(own, "\n  enabled: true\n  image:", "\n  enabled: false\n  image:", 1)
		}
		if err := s.write(filepath.Join(s.chart(), file), own); err != nil {
			return err
		}
	}
	return nil
}

// register adds the parser to the registry: an import and an entry, each in its place.
func (s *scanner) register() error {
	file := filepath.Join(s.root, "parsers", "registry.go")
	text, err := os.ReadFile(file) //nolint:gosec // as above
	if err != nil {
		return err
	}
	changed, err := addLine(string(text), `	"github.com/scanyard/scanyard/parsers/`, s.pkg+`"`)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if changed, err = addEntry(changed, s.pkg); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	formatted, err := format.Source([]byte(changed))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := s.importable(); err != nil {
		return err
	}
	return s.write(file, string(formatted))
}

// importable adds the result type to those that the chart import takes.
func (s *scanner) importable() error {
	file := filepath.Join(s.root, "charts", "import", "values.yaml")
	text, err := os.ReadFile(file) //nolint:gosec // as above
	if err != nil {
		return err
	}
	changed, err := addLine(string(text), "  - ", s.resultType)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return s.write(file, changed)
}

// addLine adds a line to the run of lines that begin with a prefix, which are sorted.
func addLine(text, prefix, rest string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	last := -1
	for i, line := range lines {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		last = i
		if line > prefix+rest+"\n" {
			last = i - 1
			break
		}
	}
	if last < 0 {
		return "", fmt.Errorf("no line begins with %s", strings.TrimSpace(prefix))
	}
	lines[last] += prefix + rest + "\n"
	return strings.Join(lines, ""), nil
}

var entry = regexp.MustCompile(`^\t\t(\w+)\.Parser\(\),\n$`)

// addEntry adds a parser to the list, which is sorted by package.
func addEntry(text, pkg string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	last := -1
	for i, line := range lines {
		m := entry.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		last = i
		if m[1] > pkg {
			last = i - 1
			break
		}
	}
	if last < 0 {
		return "", errors.New("it lists no parsers")
	}
	lines[last] += "\t\t" + pkg + ".Parser(),\n"
	return strings.Join(lines, ""), nil
}

// write writes one file and says so.
func (s *scanner) write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil { //nolint:gosec // the caller names the repository
		return err
	}
	shown, err := filepath.Rel(s.root, file)
	if err != nil {
		return err
	}
	fmt.Println("  " + shown)
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // source code
}
