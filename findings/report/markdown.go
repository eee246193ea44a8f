// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/scanyard/scanyard/apis/text"
)

const (
	// maxMarkdown is how many findings the Markdown has: it is for reading, in a comment or a wiki.
	maxMarkdown = 100
	// maxMarkdownText is how long a cell is.
	maxMarkdownText = 200
)

// brief is what Markdown needs of a finding, so that not more is kept.
func (e *Entry) brief() *Entry {
	return &Entry{
		Severity: e.Severity, Name: text.Cut(e.Name, maxMarkdownText), Category: text.Cut(e.Category, maxMarkdownText),
		Location: text.Cut(e.Location, maxMarkdownText), State: e.State, Exception: e.Exception,
	}
}

func writeMarkdown(_ context.Context, r *Report, w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n", Plain(text.Cut(r.Scan.Title, maxMarkdownText)))
	fmt.Fprintf(&out, "Scan %s of type %s in namespace %s", Plain(r.Scan.Name), Plain(r.Scan.Type), Plain(r.Scan.Namespace))
	if r.Scan.Finished != "" {
		fmt.Fprintf(&out, ", finished %s", r.Scan.Finished)
	}
	fmt.Fprintf(&out, ": %d findings.\n", r.stats.total)
	if text := r.Scan.unreached(); text != "" {
		fmt.Fprintf(&out, "\n**%s.** So this scan says nothing about its targets.\n", Plain(text))
	} else if text := r.Scan.reachDoubt(); text != "" && r.stats.total == 0 {
		fmt.Fprintf(&out, "\n%s.\n", Plain(text))
	}
	if r.Comparison != nil {
		fmt.Fprintf(&out, "\nSince the previous run: %d new, %d fixed.\n", r.stats.newOnes, r.stats.fixed)
	}
	if n := r.Excepted(); n > 0 {
		fmt.Fprintf(&out, "\n%d of them are excepted.\n", n)
	}
	out.WriteString("\n| Severity | Findings |\n| --- | ---: |\n")
	for s := range Severities {
		fmt.Fprintf(&out, "| %s | %d |\n", s.Words(), r.Open(s))
	}
	if r.stats.total == 0 {
		return writeAll(w, out.String())
	}
	writeGroups(&out, "Category", r.stats.categories)
	writeGroups(&out, "Location", r.stats.locations)
	if r.Excepted() < r.stats.total {
		r.writeWorst(&out)
	}
	r.writeExcepted(&out)
	return writeAll(w, out.String())
}

func writeGroups(out *strings.Builder, title string, all groups) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| %s | High | Medium | Low | Informational |\n| --- | ---: | ---: | ---: | ---: |\n", title)
	for _, g := range all.top(topGroups) {
		name := Plain(text.Cut(g.Name, maxMarkdownText))
		if g.Name == "" {
			name = "others"
		}
		fmt.Fprintf(out, "| %s |", name)
		for _, n := range g.Counts {
			fmt.Fprintf(out, " %d |", n)
		}
		out.WriteString("\n")
	}
}

func (r *Report) writeWorst(out *strings.Builder) {
	out.WriteString("\n| Severity | Name | Category | Location |")
	line := "\n| --- | --- | --- | --- |"
	if r.Comparison != nil {
		out.WriteString(" State |")
		line += " --- |"
	}
	out.WriteString(line + "\n")
	left := maxMarkdown
	for s := range Severities {
		for _, e := range r.worst[s][:min(left, len(r.worst[s]))] {
			left--
			fmt.Fprintf(out, "| %s | %s | %s | %s |", s.Words(), Plain(e.Name), Plain(e.Category), Plain(e.Location))
			if e.State != "" {
				fmt.Fprintf(out, " %s |", e.State)
			}
			out.WriteString("\n")
		}
	}
	if open := r.stats.total - r.Excepted(); open > maxMarkdown {
		fmt.Fprintf(out, "\nThe first %d of %d findings by severity.\n", maxMarkdown, open)
	}
}

// writeExcepted lists the findings that count no longer, and why.
func (r *Report) writeExcepted(out *strings.Builder) {
	if len(r.excepted) == 0 {
		return
	}
	out.WriteString("\n## Excepted findings\n\n| Severity | Name | Location | Exception |\n| --- | --- | --- | --- |\n")
	for _, e := range r.excepted {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", e.Severity.Words(), Plain(e.Name), Plain(e.Location), Plain(text.Cut(e.exception(), maxMarkdownText)))
	}
	if n := r.Excepted(); n > len(r.excepted) {
		fmt.Fprintf(out, "\nThe first %d of %d.\n", len(r.excepted), n)
	}
}

// Plain is a text in one line without a meaning in Markdown or HTML. Addresses must not become links, since their targets
// are unknown.
func Plain(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029
	}), " ")
	var out strings.Builder
	for _, c := range text {
		switch {
		case c == '<':
			out.WriteString("&lt;")
		case c == '>':
			out.WriteString("&gt;")
		case c == '&':
			out.WriteString("&amp;")
		case strings.ContainsRune("\\`*_{}[]()#+-.!|~^=@:", c):
			// An entity is a plain character for every dialect, a backslash is not.
			fmt.Fprintf(&out, "&#%d;", c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}
