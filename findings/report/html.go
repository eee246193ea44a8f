// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
)

// The page, its style and its script. The page has marks where the rest goes.
var (
	//go:embed page/report.html
	pageHTML string
	//go:embed page/style.css
	pageStyle string
	//go:embed page/app.js
	pageScript string
)

// Longest texts in the page. The CSV has them whole.
const (
	maxPageText       = 4000
	maxPageName       = 500
	maxPageReferences = 20
	maxPageAttributes = 8000
)

// policy lets the page run its own script and style, and nothing else: no request, no form, no frame, no handler in an
// attribute.
func policy() string {
	return "default-src 'none'; script-src " + digest(pageScript) + "; style-src " + digest(pageStyle) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageData is what the script reads, but for the findings, which are written after it.
type pageData struct {
	Scan       Scan       `json:"scan"`
	Total      int        `json:"total"`
	Severities []int      `json:"severities"`
	Categories []group    `json:"categories"`
	Locations  []group    `json:"locations"`
	Compared   bool       `json:"compared"`
	New        int        `json:"new"`
	Fixed      int        `json:"fixed"`
	Files      [][]string `json:"files"`
	// Excepted are those that count no longer; they are in the other numbers as well.
	Excepted int `json:"excepted,omitempty"`
}

func writePage(ctx context.Context, r *Report, w io.Writer) error {
	before, after, ok := strings.Cut(pageHTML, "{{data}}")
	if !ok {
		return fmt.Errorf("the page has no place for data")
	}
	counts := make([]int, Severities)
	var summary strings.Builder
	for s := range Severities {
		counts[s] = r.stats.severities[s].count
		fmt.Fprintf(&summary, "<li>%s: %d</li>", s.Words(), counts[s])
	}
	files := [][]string{}
	for _, f := range r.Siblings {
		if f.Name != "html" {
			files = append(files, []string{f.Name, f.Object})
		}
	}
	head, err := json.Marshal(pageData{
		Scan: r.Scan, Total: r.stats.total, Severities: counts,
		Categories: r.stats.categories.top(topGroups), Locations: r.stats.locations.top(topGroups),
		Excepted: r.Excepted(), Compared: r.Comparison != nil, New: r.stats.newOnes, Fixed: r.stats.fixed, Files: files,
	})
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	// What is filled in is not searched for marks again.
	fill := strings.NewReplacer("{{policy}}", policy(), "{{title}}", html.EscapeString(r.Scan.Title),
		"{{reached}}", r.reachedNote(), "{{style}}", pageStyle, "{{script}}", pageScript, "{{summary}}", summary.String())
	head = head[:len(head)-1] // the list of findings is its last member
	if err := writeAll(w, fill.Replace(before), string(head), `,"findings":[`); err != nil {
		return err
	}
	if err := r.writePageEntries(ctx, w); err != nil {
		return err
	}
	return writeAll(w, "]}", fill.Replace(after))
}

// reachedNote is the line of a Scan that has reached nothing, or may not have.
func (r *Report) reachedNote() string {
	text := r.Scan.unreached()
	if text != "" {
		text += ". So this scan says nothing about its targets."
	} else if doubt := r.Scan.reachDoubt(); doubt != "" && r.stats.total == 0 {
		text = doubt + "."
	}
	if text == "" {
		return ""
	}
	return `<p class="note">` + html.EscapeString(text) + "</p>\n"
}

func (r *Report) writePageEntries(ctx context.Context, w io.Writer) error {
	quota := r.quota
	separator := "\n"
	var line []byte
	return r.Each(ctx, func(e *Entry) error {
		var err error
		if line, err = appendPageEntry(line[:0], e); err != nil {
			return err
		}
		if !quota[e.Severity].room(len(line)) {
			return nil
		}
		if err := writeAll(w, separator, string(line)); err != nil {
			return err
		}
		separator = ",\n"
		return nil
	})
}

// appendPageEntry appends a finding in the form of the page's script: a list with the same positions in each. Every character that
// could end the enclosing element, or that has a meaning in HTML, is escaped.
func appendPageEntry(dst []byte, e *Entry) ([]byte, error) {
	references := make([]any, 0, 2*min(len(e.References), maxPageReferences))
	for _, ref := range e.References[:min(len(e.References), maxPageReferences)] {
		references = append(references, text.Cut(ref.Type, maxPageName), text.Cut(ref.Value, maxPageName))
	}
	var attributes any = e.Attributes
	raw, err := finding.AppendValue(nil, e.Attributes)
	switch {
	case err != nil:
		return dst, fmt.Errorf("attributes: %w", err)
	case len(e.Attributes) == 0:
		attributes = nil
	case len(raw) > maxPageAttributes:
		attributes = len(raw) // the script says that they are too long
	}
	start := len(dst)
	places := []any{
		int(e.Severity), text.Cut(e.Name, maxPageName), text.Cut(e.Category, maxGroupName), text.Cut(e.Location, maxGroupName),
		text.Cut(e.Description, maxPageText), text.Cut(e.Mitigation, maxPageText), references, attributes,
		e.IdentifiedAt, string(e.State), e.ID,
	}
	if e.Exception != nil {
		places = append(places, text.Cut(e.exception(), maxPageText), e.Excepted())
	}
	dst, err = finding.AppendValue(dst, places)
	if err != nil {
		return dst, fmt.Errorf("encode finding: %w", err)
	}
	return escapeForScript(dst, start), nil
}

// escapeForScript replaces, in the JSON from start on, < > & and the line breaks that JavaScript and JSON disagree on.
func escapeForScript(dst []byte, start int) []byte {
	const hex = "0123456789abcdef"
	for i := start; i < len(dst); i++ {
		c := dst[i]
		if c == '<' || c == '>' || c == '&' || c == 0xe2 && i+2 < len(dst) && dst[i+1] == 0x80 && dst[i+2]&^1 == 0xa8 {
			rest := string(dst[i:])
			dst = dst[:i]
			for j := 0; j < len(rest); j++ {
				c := rest[j]
				switch {
				case c == '<', c == '>', c == '&':
					dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				case c == 0xe2 && j+2 < len(rest) && rest[j+1] == 0x80 && rest[j+2]&^1 == 0xa8:
					dst = append(dst, '\\', 'u', '2', '0', '2', hex[rest[j+2]&15])
					j += 2
				default:
					dst = append(dst, c)
				}
			}
			return dst
		}
	}
	return dst
}

func writeAll(w io.Writer, texts ...string) error {
	for _, text := range texts {
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
