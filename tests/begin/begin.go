// SPDX-License-Identifier: Apache-2.0

package begin

import (
	"embed"
	"errors"
	"fmt"
	"go/format"
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

// A chart's name, and the name of a ScanType or a ScanCompletionHook.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const maxName = 40

// checkName says what is wrong with a name; the example is one that is not.
func checkName(name, example string) error {
	if !validName.MatchString(name) || len(name) > maxName {
		return fmt.Errorf("NAME %q: begin with a lower-case letter, then letters and digits, with single hyphens between them, at most %d characters: NAME=%s",
			name, maxName, example)
	}
	return nil
}

// packageOf is the name of a Go package for what users write with hyphens.
func packageOf(name string) string { return strings.ReplaceAll(name, "-", "") }

// scaffold is what both kinds need.
type scaffold struct {
	root, name string
	// folders are new, and removed if something goes wrong.
	folders []string
	// files maps templates to where they go, with the words that are filled in.
	files map[string]string
	words *strings.Replacer
	// say tells of each file.
	say func(file string)
}

// vacant says which of the folders is there already.
func (s *scaffold) vacant() error {
	for _, dir := range s.folders {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already: choose another NAME, or remove it", dir)
		}
	}
	return nil
}

// make writes all files, and takes them back if something goes wrong. What changes files that are there comes last.
func (s *scaffold) make(model func() error, change func() error) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, dir := range s.folders {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, from := range slices.Sorted(maps.Keys(s.files)) {
		text, err := templates.ReadFile("template/" + from)
		if err != nil {
			return err
		}
		if err := s.write(s.files[from], s.words.Replace(string(text))); err != nil {
			return err
		}
	}
	if err := model(); err != nil {
		return err
	}
	return change()
}

func (s *scaffold) chart() string { return filepath.Join(s.root, "charts", s.name) }

// copyModel takes from a chart what charts of its kind share, so that a new chart never lags behind.
func (s *scaffold) copyModel(model string, change func(file, text string) (string, error)) error {
	for _, file := range []string{"values.yaml", "Chart.lock"} {
		text, err := os.ReadFile(filepath.Join(s.root, "charts", model, file))
		if err != nil {
			return err
		}
		own, err := change(file, string(text))
		if err != nil {
			return err
		}
		if err := s.write(filepath.Join(s.chart(), file), own); err != nil {
			return err
		}
	}
	return nil
}

// line is one that is added to those of a pattern, which are sorted by the key that the pattern finds.
type line struct {
	like      *regexp.Regexp
	key, text string
}

// register adds lines to a file of the repository.
func (s *scaffold) register(file string, lines ...line) error {
	file = filepath.Join(s.root, file)
	read, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(read)
	for _, l := range lines {
		if text, err = l.addTo(text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if filepath.Ext(file) == ".go" {
		formatted, err := format.Source([]byte(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		text = string(formatted)
	}
	return s.write(file, text)
}

func (l line) addTo(text string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	last := -1
	for i, each := range lines {
		m := l.like.FindStringSubmatch(each)
		if m == nil {
			continue
		}
		last = i
		if m[1] > l.key {
			last = i - 1
			break
		}
	}
	if last < 0 {
		return "", fmt.Errorf("no line is like %s", strings.TrimSpace(l.text))
	}
	lines[last] += l.text
	return strings.Join(lines, ""), nil
}

// write writes one file and says so.
func (s *scaffold) write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	shown, err := filepath.Rel(s.root, file)
	if err != nil {
		return err
	}
	s.say(shown)
	return os.WriteFile(file, []byte(text), 0o644)
}
