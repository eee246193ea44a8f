// SPDX-License-Identifier: Apache-2.0

package message

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/podkit/process"
)

//go:embed templates
var builtIn embed.FS

const ending = ".tmpl"

// Templates is where templates come from: a folder of the user's, then those built in.
type Templates struct {
	Folder string
	Env    sdk.Env
}

// Message is a template with the variables of the environment that it names.
type Message struct {
	template *render.Text
	Source   string
	args     map[string]any
}

// Find reads a template by its name, or takes a text for one.
func (l *Templates) Find(name, text string) (*Message, error) {
	if text != "" {
		return l.parse("templateText", text)
	}
	if name == "" || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("%q is not a valid name of a template", name)
	}
	folder := os.DirFS(l.Folder)
	content, err := fs.ReadFile(folder, name+ending)
	switch {
	case err == nil:
		return l.parse(name, string(content))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	if _, err := fs.Stat(folder, name+".njk"); err == nil {
		return nil, fmt.Errorf(
			"the template %s.njk is a Nunjucks template, which is not supported; make a Go template %s.tmpl of it, as the hook's README says",
			name, name,
		)
	}
	return l.BuiltIn(name)
}

// BuiltIn reads a template that comes with the hook.
func (l *Templates) BuiltIn(name string) (*Message, error) {
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

func (l *Templates) parse(name, text string) (*Message, error) {
	template, err := render.ParseText(name, text, render.Limits{})
	if err != nil {
		return nil, err
	}
	m := &Message{template: template, Source: text, args: map[string]any{}}
	for _, variable := range word.FindAllString(text, -1) {
		if value, ok := l.Env(variable); ok {
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
	line := []rune(strings.ReplaceAll(PlainText(text), "\n", " "))
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
	escaped := []rune(slackEscapes.Replace(PlainText(text)))
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
func (data) HTML(text any) string { return htmlEscapes.Replace(PlainText(text)) }

// Link fills the mustache template of an address, such as https://host/{{ uid }}, with the Scan's uid.
func (d data) Link(template any) (string, error) {
	uid := ""
	if scan, ok := d["scan"].(map[string]any); ok {
		if metadata, ok := scan["metadata"].(map[string]any); ok {
			uid = PlainText(metadata["uid"])
		}
	}
	return render.RenderMustache(PlainText(template), map[string]any{"uid": uid})
}

// linkToFinding is the attribute that the hook of DefectDojo adds.
const linkToFinding = "defectdojo.org/finding-url"

// FindingLink is the address of a finding in DefectDojo, or nothing. Attributes may come from what was scanned, so the
// address has to be of http or https, without credentials, and, where that of DefectDojo is known, on its host.
func (data) FindingLink(found, home any) string {
	text, ok := member(member(found, "attributes"), linkToFinding).(string)
	if !ok || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || !unicode.IsPrint(r) }) {
		return ""
	}
	address, err := url.Parse(text)
	if err != nil || (address.Scheme != "http" && address.Scheme != "https") || address.Hostname() == "" || address.User != nil {
		return ""
	}
	if known := PlainText(home); known != "" {
		at, err := url.Parse(known)
		if err != nil || !strings.EqualFold(at.Host, address.Host) || at.Scheme != address.Scheme {
			return ""
		}
	}
	return outOfMarkup.Replace(address.String())
}

// outOfMarkup escapes what would end a link in Markdown or in the markup of chats.
var outOfMarkup = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "|", "%7C", `"`, "%22", "'", "%27", "`", "%60")

// noLinks and linkMarkup take links that show another text than their address apart.
var (
	noLinks    = strings.NewReplacer("](", "] (", "]:", "] :", "][", "] [")
	linkMarkup = regexp.MustCompile(`<([A-Za-z][A-Za-z0-9+.-]*:)`)
)

// Unlinked is a text without links of Markdown, or of the markup of chats, that hide where they lead.
func (data) Unlinked(text any) string {
	return linkMarkup.ReplaceAllString(noLinks.Replace(PlainText(text)), "< $1")
}

func member(object any, key string) any {
	o, ok := object.(map[string]any)
	if !ok {
		return nil
	}
	return o[key]
}

// PlainText is a text as it is, other values as JavaScript prints them, and nothing for nothing.
func PlainText(value any) string {
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

// Render makes the message about a Scan and its findings.
func (m *Message) Render(scan *Scan, s *Findings) (string, error) {
	d := m.newData(scan)
	lists := map[compare.State][]any{}
	findings := make([]any, 0, len(s.Kept))
	for _, k := range s.Kept {
		value, err := render.Data(k.element)
		if err != nil {
			return "", fmt.Errorf("read finding: %w", err)
		}
		findings = append(findings, value)
		lists[k.state] = append(lists[k.state], value)
	}
	d["findings"], d["new"], d["known"], d["fixed"] = findings, lists[compare.New], lists[compare.Known], lists[compare.Fixed]
	d["count"], d["more"] = s.Count, s.Count-len(s.Kept)
	d["counts"] = map[string]any{"new": s.counts[compare.New], "known": s.counts[compare.Known], "fixed": s.counts[compare.Fixed]}
	return m.write(d)
}

// write fills in the template. One that cannot be filled in is as wrong in the next try.
func (m *Message) write(d data) (string, error) {
	text, err := m.template.Render(d)
	return text, process.Misconfigured(err)
}

// RenderEntry makes what a template of a reporter says about one entry.
func (m *Message) RenderEntry(scan *Scan, e *Entry) (string, error) {
	d := m.newData(scan)
	d["finding"], d["state"], d["title"], d["text"] = e.decoded, string(e.State), e.Title, e.Text
	return m.write(d)
}

func (m *Message) newData(scan *Scan) data {
	return data{
		"scan": scan.decoded, "args": m.args, "errored": scan.Errored(), "unreached": scan.unreached,
		"severities": scan.severities, "categories": scan.categories,
	}
}

// ToObject reads a template's text as YAML and wants an object.
func ToObject(text string) (map[string]any, error) {
	encoded, err := ToJSON(text)
	if err != nil {
		return nil, process.Misconfigured(fmt.Errorf("the template makes no YAML; put values into it with toJson: %w", err))
	}
	var o map[string]any
	if err := json.Unmarshal(encoded, &o); err != nil || o == nil {
		return nil, process.Misconfigured(errors.New("the template makes no object"))
	}
	return o, nil
}
