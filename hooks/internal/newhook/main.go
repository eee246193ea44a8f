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
)

//go:embed template
var templates embed.FS

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: newhook ROOT NAME [ReadOnly|ReadAndWrite]")
		os.Exit(2)
	}
	kind := readOnly
	if len(os.Args) == 4 {
		kind = os.Args[3]
	}
	h, err := newHook(os.Args[1], os.Args[2], kind)
	if err == nil {
		err = h.begin()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "newhook:", err)
		os.Exit(1)
	}
}

const readOnly, readAndWrite = "ReadOnly", "ReadAndWrite"

// hook is the one that is begun.
type hook struct {
	root string
	name string // as users write it, "my-hook"
	pkg  string // "myhook"
	kind string
}

// A chart's name, and the name of a ScanCompletionHook.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const maxName = 40

func newHook(root, name, kind string) (*hook, error) {
	if !validName.MatchString(name) || len(name) > maxName {
		return nil, fmt.Errorf(
			"NAME %q: begin with a lower-case letter, then letters and digits, with single hyphens between them, at most %d characters: NAME=my-hook",
			name, maxName,
		)
	}
	if kind != readOnly && kind != readAndWrite {
		return nil, fmt.Errorf("TYPE %q must be %s, which hands findings on, or %s, which changes them", kind, readOnly, readAndWrite)
	}
	h := &hook{root: root, name: name, pkg: strings.ReplaceAll(name, "-", ""), kind: kind}
	if token.IsKeyword(h.pkg) || slices.Contains([]string{"main", "init", "sdk", "internal", "cmd", "testdata"}, h.pkg) {
		return nil, fmt.Errorf("NAME %q: %s cannot be the name of a hook's Go package: add a word, as in NAME=%s-hook", name, h.pkg, name)
	}
	for _, dir := range []string{h.folder(), h.chart()} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists already: choose another NAME, or remove it", dir)
		}
	}
	return h, nil
}

func (h *hook) folder() string { return filepath.Join(h.root, "hooks", h.pkg) }

func (h *hook) chart() string { return filepath.Join(h.root, "charts", h.name) }

// files maps templates to where they go.
func (h *hook) files() map[string]string {
	code := "hook/reads.go.txt"
	if h.kind == readAndWrite {
		code = "hook/writes.go.txt"
	}
	return map[string]string{
		"hook/doc.go.txt":           filepath.Join(h.folder(), "doc.go"),
		code:                        filepath.Join(h.folder(), "hook.go"),
		"hook/hook_test.go.txt":     filepath.Join(h.folder(), "hook_test.go"),
		"hook/README.md.txt":        filepath.Join(h.folder(), "README.md"),
		"hook/example.yaml":         filepath.Join(h.folder(), "example.yaml"),
		"chart/Chart.yaml":          filepath.Join(h.chart(), "Chart.yaml"),
		"chart/README.md.gotmpl":    filepath.Join(h.chart(), "README.md.gotmpl"),
		"chart/helmignore":          filepath.Join(h.chart(), ".helmignore"),
		"chart/templates/hook.yaml": filepath.Join(h.chart(), "templates", "hook.yaml"),
		"chart/templates/NOTES.txt": filepath.Join(h.chart(), "templates", "NOTES.txt"),
	}
}

// begin writes all files, and takes them back if something goes wrong. The list of hooks comes last: without its line
// nothing else changes what there is.
func (h *hook) begin() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(h.chart()), os.RemoveAll(h.folder())) //nolint:gosec // what newHook saw was not there
		}
	}()
	files := h.files()
	for _, from := range slices.Sorted(maps.Keys(files)) {
		text, err := templates.ReadFile("template/" + from)
		if err != nil {
			return err
		}
		filled := strings.NewReplacer("PACKAGE", h.pkg, "NAME", h.name, "TYPE", h.kind).Replace(string(text))
		if err := h.write(files[from], filled); err != nil {
			return err
		}
	}
	if err := h.copyChart(); err != nil {
		return err
	}
	return h.register()
}

// modelChart is the chart whose values every chart of a hook has too.
const modelChart = "update-field"

// copyChart takes from the model what charts share, so that a new chart never lags behind. What is the model's own stands
// before the first value that all have.
func (h *hook) copyChart() error {
	for _, file := range []string{"values.yaml", "Chart.lock"} {
		text, err := os.ReadFile(filepath.Join(h.root, "charts", modelChart, file)) //nolint:gosec // the caller names the repository
		if err != nil {
			return err
		}
		own := string(text)
		if file == "values.yaml" {
			_, shared, found := strings.Cut(own, "\n# -- For Scans of all namespaces")
			if !found {
				return fmt.Errorf("the values of charts/%s do not begin as those of a hook", modelChart)
			}
			own = "# SPDX-License-Identifier: Apache-2.0\n\n# Values of the " + h.name + " chart.\n\n# -- For Scans of all namespaces" +
				strings.Replace(shared, "; `docker.io/securecodebox/hook-"+modelChart+"` does too", "", 1)
		}
		if err := h.write(filepath.Join(h.chart(), file), own); err != nil {
			return err
		}
	}
	return nil
}

// register adds the hook to the list: an import and an entry, each in its place.
func (h *hook) register() error {
	file := filepath.Join(h.root, "hooks", "cmd", "hook", "main.go")
	text, err := os.ReadFile(file) //nolint:gosec // as above
	if err != nil {
		return err
	}
	changed, err := addLine(string(text), regexp.MustCompile(`^\t"github\.com/scanyard/scanyard/hooks/(\w+)"\n$`), h.pkg,
		"\t\"github.com/scanyard/scanyard/hooks/"+h.pkg+"\"\n")
	if err == nil {
		changed, err = addLine(changed, regexp.MustCompile(`^\t(\w+)\.Hook\(.*\),\n$`), h.pkg, "\t"+h.pkg+".Hook(),\n")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	formatted, err := format.Source([]byte(changed))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return h.write(file, string(formatted))
}

// addLine adds a line to those of a pattern, which are sorted by the package that the pattern finds.
func addLine(text string, pattern *regexp.Regexp, pkg, added string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	last := -1
	for i, line := range lines {
		m := pattern.FindStringSubmatch(line)
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
		return "", fmt.Errorf("no line is like %s", strings.TrimSpace(added))
	}
	lines[last] += added
	return strings.Join(lines, ""), nil
}

// write writes one file and says so.
func (h *hook) write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil { //nolint:gosec // the caller names the repository
		return err
	}
	shown, err := filepath.Rel(h.root, file)
	if err != nil {
		return err
	}
	fmt.Println("  " + shown)
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // source code
}
