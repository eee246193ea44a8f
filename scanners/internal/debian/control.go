// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	version "github.com/knqyf263/go-deb-version"
)

// control is a package as the archive's list describes it.
type control struct {
	name, version, arch string
	archive             string
	path                string
	size                int64
	sha256              string
	depends             []group // Pre-Depends and Depends
	conflicts           []group // Conflicts and Breaks
	provides            []relation
}

// relation is a package's name with a condition on its version.
type relation struct {
	name    string
	op      string // empty, or one of << <= = >= >>
	version string
}

// group are alternatives.
type group []relation

func (r relation) String() string {
	if r.op == "" {
		return r.name
	}
	return r.name + " (" + r.op + " " + r.version + ")"
}

func (g group) String() string {
	all := make([]string, len(g))
	for i, r := range g {
		all[i] = r.String()
	}
	return strings.Join(all, " | ")
}

// A name may carry an architecture (python3:any), which says nothing where all packages have one.
var relationForm = regexp.MustCompile(`^([a-zA-Z0-9][a-zA-Z0-9+.-]*)(?::[a-z0-9-]+)?\s*(?:\(\s*(<<|<=|=|>=|>>)\s*([^\s)]+)\s*\))?$`)

func parseRelations(field string) ([]group, error) {
	var all []group
	for part := range strings.SplitSeq(field, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		var g group
		for alt := range strings.SplitSeq(part, "|") {
			m := relationForm.FindStringSubmatch(strings.TrimSpace(alt))
			if m == nil {
				return nil, fmt.Errorf("relation %q is not understood", alt)
			}
			g = append(g, relation{m[1], m[2], m[3]})
		}
		all = append(all, g)
	}
	return all, nil
}

// compare orders versions as dpkg does.
func compare(a, b string) (int, error) {
	va, err := version.NewVersion(a)
	if err != nil {
		return 0, fmt.Errorf("version %q: %w", a, err)
	}
	vb, err := version.NewVersion(b)
	if err != nil {
		return 0, fmt.Errorf("version %q: %w", b, err)
	}
	return va.Compare(vb), nil
}

// meets reports whether a version fulfils a relation.
func (r relation) meets(v string) (bool, error) {
	if r.op == "" {
		return true, nil
	}
	if v == "" {
		return false, nil // a name provided without a version meets no condition on one
	}
	c, err := compare(v, r.version)
	if err != nil {
		return false, err
	}
	switch r.op {
	case "<<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case "=":
		return c == 0, nil
	case ">=":
		return c >= 0, nil
	default:
		return c > 0, nil
	}
}

// maxLine bounds a line of a list; the longest of Debian's are some ten thousand bytes.
const maxLine = 1 << 20

// stanzas calls f with the fields of each paragraph. Continuation lines are joined by newlines.
func stanzas(r io.Reader, f func(map[string]string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	fields, last := map[string]string{}, ""
	flush := func() error {
		if len(fields) == 0 {
			return nil
		}
		err := f(fields)
		fields, last = map[string]string{}, ""
		return err
	}
	for s.Scan() {
		line := s.Text()
		switch {
		case strings.TrimSpace(line) == "":
			if err := flush(); err != nil {
				return err
			}
		case line[0] == ' ' || line[0] == '\t':
			if last == "" {
				return fmt.Errorf("line %.60q continues nothing", line)
			}
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				return fmt.Errorf("line %.60q is not a field", line)
			}
			last = name
			fields[name] = strings.TrimSpace(value)
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	return flush()
}

// newControl takes what is needed of a paragraph of a Packages list.
func newControl(archive string, f map[string]string) (*control, error) {
	c := &control{name: f["Package"], version: f["Version"], arch: f["Architecture"], archive: archive, path: f["Filename"], sha256: f["SHA256"]}
	if c.name == "" || c.version == "" || c.arch == "" || c.path == "" || len(c.sha256) != 64 {
		return nil, fmt.Errorf("package %q: a field is missing", c.name)
	}
	var err error
	if c.size, err = strconv.ParseInt(f["Size"], 10, 64); err != nil || c.size <= 0 {
		return nil, fmt.Errorf("package %s: size %q", c.name, f["Size"])
	}
	var errs [3]error
	c.depends, errs[0] = parseRelations(f["Pre-Depends"] + "," + f["Depends"])
	c.conflicts, errs[1] = parseRelations(f["Conflicts"] + "," + f["Breaks"])
	provides, err := parseRelations(f["Provides"])
	errs[2] = err
	for _, g := range provides {
		c.provides = append(c.provides, g...)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("package %s: %w", c.name, err)
	}
	return c, nil
}
