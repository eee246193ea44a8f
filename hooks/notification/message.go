// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
)

//go:embed templates
var builtIn embed.FS

const ending = ".tmpl"

// library is where templates come from: a folder of the user's, then those built in.
type library struct {
	folder string
	env    sdk.Env
}

// message is a template with the variables of the environment that it names.
type message struct {
	template *render.Text
	source   string
	args     map[string]any
}

// find reads a template by its name, or takes a text for one.
func (l *library) find(name, text string) (*message, error) {
	if text != "" {
		return l.parse("templateText", text)
	}
	if name == "" || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("%q is no name of a template", name)
	}
	folder := os.DirFS(l.folder)
	content, err := fs.ReadFile(folder, name+ending)
	switch {
	case err == nil:
		return l.parse(name, string(content))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	if _, err := fs.Stat(folder, name+".njk"); err == nil {
		return nil, fmt.Errorf("the template %s.njk is a Nunjucks template, which is not supported; make a Go template %s.tmpl of it, as the hook's README says", name, name)
	}
	return l.builtIn(name)
}

// builtIn reads a template that comes with the hook.
func (l *library) builtIn(name string) (*message, error) {
	content, err := builtIn.ReadFile("templates/" + name + ending)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no template %q, neither as the file %s%s nor built in", name, name, ending)
	}
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	return l.parse(name, string(content))
}

// word finds what may be the name of a variable.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

func (l *library) parse(name, text string) (*message, error) {
	template, err := render.ParseText(name, text, render.Limits{})
	if err != nil {
		return nil, err
	}
	m := &message{template: template, source: text, args: map[string]any{}}
	for _, variable := range word.FindAllString(text, -1) {
		if value, ok := l.env(variable); ok {
			m.args[variable] = value
		}
	}
	return m, nil
}

// data is what a template is given: members as users of secureCodeBox have them, and functions that are particular to
// messages, as methods.
type data map[string]any

// Truncate cuts a text at the last space before a length and appends three points. Line breaks become spaces.
func (data) Truncate(length int, text any) string {
	line := []rune(strings.ReplaceAll(plainText(text), "\n", " "))
	if len(line) <= length {
		return string(line)
	}
	end := length
	for i := length; i >= 0; i-- { // a space right after the length is fine, too
		if line[i] == ' ' {
			end = i
			break
		}
	}
	return string(line[:end]) + "..."
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Slack escapes what Slack takes for markup of its own, links and mentions, and keeps to its bound of a field.
func (data) Slack(length int, text any) string {
	escaped := []rune(slackEscapes.Replace(plainText(text)))
	if len(escaped) <= length {
		return string(escaped)
	}
	cut := string(escaped[:length-1])
	if at := strings.LastIndexByte(cut, '&'); at >= 0 && !strings.Contains(cut[at:], ";") {
		cut = cut[:at]
	}
	return cut + "…"
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", `"`, "&quot;", "'", "&#39;", "<", "&lt;", ">", "&gt;", "`", "&#96;")

// HTML escapes a text for HTML.
func (data) HTML(text any) string { return htmlEscapes.Replace(plainText(text)) }

// Link fills the mustache template of an address, such as https://host/{{ uid }}, with the Scan's uid.
func (d data) Link(template any) (string, error) {
	uid := ""
	if scan, ok := d["scan"].(map[string]any); ok {
		if metadata, ok := scan["metadata"].(map[string]any); ok {
			uid = plainText(metadata["uid"])
		}
	}
	return render.RenderMustache(plainText(template), map[string]any{"uid": uid})
}

// plainText is a text as it is, other values as JavaScript prints them, and nothing for nothing.
func plainText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case int, int64:
		return fmt.Sprint(v)
	}
	return finding.ToString(value)
}

// render makes the message about a Scan and its findings.
func (m *message) render(scan *scan, s *selected) (string, error) {
	d := m.newData(scan)
	lists := map[compare.State][]any{}
	findings := make([]any, 0, len(s.kept))
	for _, k := range s.kept {
		value, err := render.Data(k.element)
		if err != nil {
			return "", fmt.Errorf("read finding: %w", err)
		}
		findings = append(findings, value)
		lists[k.state] = append(lists[k.state], value)
	}
	d["findings"], d["new"], d["known"], d["fixed"] = findings, lists[compare.New], lists[compare.Known], lists[compare.Fixed]
	d["count"], d["more"] = s.count, s.count-len(s.kept)
	d["counts"] = map[string]any{"new": s.counts[compare.New], "known": s.counts[compare.Known], "fixed": s.counts[compare.Fixed]}
	return m.template.Render(d)
}

// renderEntry makes what a template of a reporter says about one entry.
func (m *message) renderEntry(scan *scan, e *entry) (string, error) {
	d := m.newData(scan)
	d["finding"], d["state"], d["title"], d["text"] = e.decoded, string(e.state), e.title, e.text
	return m.template.Render(d)
}

func (m *message) newData(scan *scan) data {
	return data{
		"scan": scan.decoded, "args": m.args, "errored": scan.errored(),
		"severities": scan.severities, "categories": scan.categories,
	}
}

// object reads a template's text as YAML and wants an object.
func object(text string) (map[string]any, error) {
	encoded, err := yamlToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the template makes no YAML; put values into it with toJson: %w", err)
	}
	var o map[string]any
	if err := json.Unmarshal(encoded, &o); err != nil || o == nil {
		return nil, errors.New("the template makes no object")
	}
	return o, nil
}
