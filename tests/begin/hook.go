// SPDX-License-Identifier: Apache-2.0

package begin

import (
	"fmt"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const readOnly, readAndWrite = "ReadOnly", "ReadAndWrite"

// hook is the one that is begun.
type hook struct {
	scaffold

	pkg  string // "myhook" for "my-hook"
	kind string
}

// Hook begins a hook in a checkout: its package, its line in the list of hooks, and a chart.
func Hook(root, name, kind string, say func(file string)) error {
	h, err := newHook(root, name, kind)
	if err != nil {
		return err
	}
	h.say = say
	return h.make(h.copyChart, h.register)
}

func newHook(root, name, kind string) (*hook, error) {
	if err := checkName(name, "my-hook"); err != nil {
		return nil, err
	}
	if kind == "" {
		kind = readOnly
	}
	if kind != readOnly && kind != readAndWrite {
		return nil, fmt.Errorf("TYPE %q must be %s, which hands findings on, or %s, which changes them", kind, readOnly, readAndWrite)
	}
	h := &hook{scaffold: scaffold{root: root, name: name}, pkg: packageOf(name), kind: kind}
	if token.IsKeyword(h.pkg) || slices.Contains([]string{"main", "init", "sdk", "internal", "cmd", "testdata"}, h.pkg) {
		return nil, fmt.Errorf("NAME %q: %s cannot be the name of a hook's Go package: add a word, as in NAME=%s-hook", name, h.pkg, name)
	}
	h.folders = []string{h.chart(), h.folder()}
	h.files = h.where()
	h.words = strings.NewReplacer("PACKAGE", h.pkg, "NAME", h.name, "TYPE", h.kind)
	return h, h.vacant()
}

func (h *hook) folder() string { return filepath.Join(h.root, "hooks", h.pkg) }

// where maps templates to where they go.
func (h *hook) where() map[string]string {
	code := "hook/hook/reads.go.txt"
	if h.kind == readAndWrite {
		code = "hook/hook/writes.go.txt"
	}
	return map[string]string{
		"hook/hook/doc.go.txt":           filepath.Join(h.folder(), "doc.go"),
		code:                             filepath.Join(h.folder(), "hook.go"),
		"hook/hook/hook_test.go.txt":     filepath.Join(h.folder(), "hook_test.go"),
		"hook/hook/README.md.txt":        filepath.Join(h.folder(), "README.md"),
		"hook/hook/example.yaml":         filepath.Join(h.folder(), "example.yaml"),
		"hook/chart/Chart.yaml":          filepath.Join(h.chart(), "Chart.yaml"),
		"hook/chart/README.md.gotmpl":    filepath.Join(h.chart(), "README.md.gotmpl"),
		"helmignore":                     filepath.Join(h.chart(), ".helmignore"),
		"hook/chart/templates/hook.yaml": filepath.Join(h.chart(), "templates", "hook.yaml"),
		"hook/chart/templates/NOTES.txt": filepath.Join(h.chart(), "templates", "NOTES.txt"),
	}
}

// modelHook is the chart whose values every chart of a hook has too. What is the model's own stands before the first value that all have.
const modelHook = "update-field"

func (h *hook) copyChart() error {
	return h.copyModel(modelHook, func(file, text string) (string, error) {
		if file != "values.yaml" {
			return text, nil
		}
		const first = "\n# -- For Scans of all namespaces"
		_, shared, found := strings.Cut(text, first)
		if !found {
			return "", fmt.Errorf("the values of charts/%s do not begin as those of a hook", modelHook)
		}
		return "# SPDX-License-Identifier: Apache-2.0\n\n# Values of the " + h.name + " chart.\n" + first +
			strings.Replace(shared, "; `docker.io/securecodebox/hook-"+modelHook+"` does too", "", 1), nil
	})
}

var (
	hookImport = regexp.MustCompile(`^\t"github\.com/scanyard/scanyard/hooks/(\w+)"\n$`)
	hookEntry  = regexp.MustCompile(`^\t(\w+)\.Hook\(.*\),\n$`)
)

// register adds the hook to the list.
func (h *hook) register() error {
	return h.scaffold.register("hooks/cmd/hook/main.go",
		line{hookImport, h.pkg, "\t\"github.com/scanyard/scanyard/hooks/" + h.pkg + "\"\n"},
		line{hookEntry, h.pkg, "\t" + h.pkg + ".Hook(),\n"},
	)
}
