// SPDX-License-Identifier: Apache-2.0

package nuclei

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/nuclei/internal/whatwg"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "nuclei-json",
		Summary:    "nuclei JSON lines (-jsonl)",
		Kinds:      kinds(),
		Reach:      "results, each of which is an answer; without any it is unknown",
		Parse:      parse,
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	lines := jsonstream.NewLines(raw, in.Limits.JSON())
	w := writer{emit: emit}
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			w.reportReach(in)
			return nil
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			continue
		}
		if line = bytes.TrimFunc(line, ecma.IsSpace); len(line) == 0 {
			return lines.Fail(errors.New("holds white space only, must be a result or empty"))
		}
		v, err := lines.Decode(line)
		if err != nil {
			return err
		}
		if err := w.write(v); err != nil {
			return lines.Fail(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// writer makes findings. It uses one again and again.
type writer struct {
	emit sdk.Emit
	f    finding.Finding
	refs refs
	// matches are results that come of an answer.
	matches int
}

// reportReach reports what was reached. nuclei writes nothing about targets that match no template, or do not answer.
func (w *writer) reportReach(in *sdk.Input) {
	if w.matches == 0 {
		in.ReachUnknown("nuclei has no results, and does not report whether the targets answered")
		return
	}
	in.Reached("targets answered: %s", sdk.Counted(w.matches, "result", "results"))
}

func (w *writer) write(v any) error {
	result, _ := v.(finding.Object)
	v, _ = result.Get("info")
	info, ok := v.(finding.Object)
	if !ok {
		return errors.New("has no object info")
	}
	severity, ok := info.Text("severity").Get()
	if !ok {
		return errors.New("info has no severity that is a text")
	}
	w.f = finding.Finding{Severity: finding.String(severityOf(severity)), Attributes: w.f.Attributes[:0], Extra: w.f.Extra[:0]}
	ecma.SetText(&w.f, &w.f.Name, "name", info, "name")
	if v, _ := info.Get("description"); v != nil {
		ecma.SetText(&w.f, &w.f.Description, "description", info, "description")
	} else {
		w.f.Description = finding.String("The name of the nuclei rule which triggered the finding: " + ecma.Property(result, "template-id"))
	}
	ecma.SetText(&w.f, &w.f.Category, "category", result, "template-id")
	ecma.SetText(&w.f, &w.f.Location, "location", result, "host")
	w.f.IdentifiedAt = finding.Null()
	if timestamp := ecma.OrNull(result, "timestamp"); timestamp != nil {
		iso, ok := ecma.Date(timestamp)
		if !ok {
			return fmt.Errorf("timestamp %.100q is not a date", finding.ToString(timestamp))
		}
		w.f.IdentifiedAt = finding.String(iso)
	}
	if err := w.references(info); err != nil {
		return err
	}
	if status, _ := result.Get("matcher-status"); status != false { // it is, with -matcher-status, of what did not match
		w.matches++
	}
	w.attributes(result, info)
	return w.emit(&w.f)
}

func severityOf(word string) string {
	switch word = ecma.ToUpper(word); word {
	case "CRITICAL":
		return finding.High
	case "INFO":
		return finding.Informational
	case "UNKNOWN":
		return finding.Low
	}
	return word
}

func (w *writer) attributes(result, info finding.Object) {
	a := w.f.Attributes
	addresses := []any{}
	if ip := ecma.OrNull(result, "ip"); ip != nil {
		addresses = append(addresses, ip)
	}
	a = append(a, finding.Member{Key: "ip_addresses", Value: addresses}, finding.Member{Key: "hostname", Value: hostname(result)})
	for _, key := range []string{"tags", "reference", "author", "metadata"} {
		a = append(a, finding.Member{Key: key, Value: ecma.OrNull(info, key)})
	}
	for _, c := range []struct{ to, from string }{
		{"type", "type"},
		{"path", "path"},
		{"timestamp", "timestamp"},
		{"matcher_status", "matcher-status"},
		{"matcher_name", "matcher-name"},
		{"matched_at", "matched-at"},
		{"matched_line", "matched-line"},
		{"extracted_results", "extracted-results"},
		{"request", "request"},
		{"response", "response"},
		{"curl_command", "curl-command"},
	} {
		a = append(a, finding.Member{Key: c.to, Value: ecma.OrNull(result, c.from)})
	}
	ecma.Copy(&a, "template", result, "template")
	ecma.Copy(&a, "template_url", result, "template-url")
	ecma.Copy(&a, "template_id", result, "template-id")
	w.f.Attributes = a
}

// hostname is the host as it is, or its host name where it is a URL, or null where it is one that is not valid.
func hostname(result finding.Object) any {
	host := ecma.OrNull(result, "host")
	text := finding.ToString(host)
	if host == nil || !hasScheme(text) {
		return host
	}
	if name, ok := whatwg.Hostname(text); ok {
		return name
	}
	return nil
}

// hasScheme reports that a text begins with a scheme and ://.
func hasScheme(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return i > 0 && len(text) >= i+3 && text[i:i+3] == "://"
		}
	}
	return false
}
