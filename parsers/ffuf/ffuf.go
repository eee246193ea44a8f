// SPDX-License-Identifier: Apache-2.0

package ffuf

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "ffuf-json",
		Summary:    "ffuf JSON report (-of json)",
		Kinds:      kinds(),
		Reach:      "results, each of which is an answer; without any it is unknown",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, number = sdk.Text | sdk.AsReported, sdk.Number | sdk.AsReported
	return []sdk.Kind{{
		Category:   "Webserver Content",
		When:       "an answer of the server that ffuf's matchers and filters let through",
		Severities: []string{finding.Informational},
		Attributes: []sdk.Attribute{
			{Name: "httpStatus", Type: number},
			{Name: "length", Type: number, Doc: "of the answer, in bytes"},
			{Name: "words", Type: number},
			{Name: "lines", Type: number},
			{Name: "contentType", Type: text},
			{Name: "redirectlocation", Type: text},
			{Name: "duration", Type: number, Doc: "until the answer, in nanoseconds"},
			{Name: "hostname", Type: text, Doc: "with the port, where the URL has one"},
			{Name: "input", Type: sdk.Map | sdk.AsReported, Doc: "keyword to the word put in its place"},
			{Name: "postdata", Type: text, Doc: "of the run, with the keywords"},
			{Name: "headers", Type: sdk.Map | sdk.AsReported, Doc: "of the run, with the keywords"},
		},
		Identity: []string{"location", "attributes.input"},
	}}
}

// run is what all findings have in common.
type run struct {
	time     string
	postdata finding.Object
	headers  finding.Object
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	common, results, err := readRun(ctx, in)
	if err != nil {
		return err
	}
	if results == 0 {
		in.ReachUnknown("ffuf has no results, and does not report whether the server answered")
		return nil
	}
	in.Reached("the server answered: %s", sdk.Counted(results, "result", "results"))
	return jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		return report.Object(func(key string) error {
			if key != "results" {
				return nil
			}
			return report.Array(func(i int) error {
				result, err := report.Value()
				if err != nil {
					return err
				}
				if err := common.parseResult(result, emit); err != nil {
					return fmt.Errorf("result %d: %w", i, err)
				}
				return ctx.Err()
			})
		})
	})
}

// readRun is the first pass. Without results there is no need for another.
func readRun(ctx context.Context, in *sdk.Input) (common run, results int, err error) {
	h := header{}
	if err := jsonstream.Read(ctx, in, h.read); err != nil || h.results == 0 {
		return run{}, 0, err
	}
	if !h.hasTime {
		return run{}, 0, errors.New("the report has no time")
	}
	time, ok := ecma.Date(h.time)
	if !ok {
		return run{}, 0, fmt.Errorf("the report's time %.100q is not a date", finding.ToString(h.time))
	}
	common.time = time
	ecma.Copy(&common.postdata, "postdata", h.config, "postdata")
	ecma.Copy(&common.headers, "headers", h.config, "headers")
	return common, h.results, nil
}

// header is what the first pass takes from a report.
type header struct {
	time    any
	hasTime bool
	config  finding.Object
	results int
}

func (h *header) read(report *jsonstream.Reader) error {
	kind, err := report.Kind()
	switch {
	case err != nil:
		return err
	case kind == jsonstream.Null:
		return errors.New("the report is null, must be an object")
	case kind == jsonstream.Nothing:
		return nil
	case kind != jsonstream.Object:
		return report.Skip() // a value that has no results
	}
	return report.Object(func(key string) error {
		switch key {
		case "time":
			h.hasTime = true
			h.time, err = report.Value()
			return err
		case "config":
			config, err := report.Value()
			h.config, _ = config.(finding.Object) // any other value has no members
			return err
		case "results":
			return h.readResults(report)
		}
		return nil
	})
}

// readResults counts the results without decoding them.
func (h *header) readResults(report *jsonstream.Reader) error {
	kind, err := report.Kind()
	if err != nil {
		return err
	}
	if kind == jsonstream.Array {
		return report.Array(func(i int) error {
			h.results = i + 1
			return nil
		})
	}
	results, err := report.Value()
	if err != nil {
		return err
	}
	if ecma.Truthy(results) {
		return fmt.Errorf("results is %s, must be an array", kind)
	}
	return nil
}

func (r *run) parseResult(v any, emit sdk.Emit) error {
	if v == nil {
		return errors.New("is null, must be an object")
	}
	result := members(v)
	input, _ := result.Get("input")
	words, _ := ecma.Values(input) // none where it is missing
	f := finding.Finding{
		Name: finding.String("Webserver Content"),
		Description: finding.String("Content [" + finding.ToString(words) + "] was found on the webserver " +
			ecma.Property(result, "host") + "."),
		IdentifiedAt: finding.String(r.time),
		OSILayer:     finding.String("APPLICATION"),
		Category:     finding.String("Webserver Content"),
		Severity:     finding.String(finding.Informational),
		Attributes:   make(finding.Object, 0, 11),
	}
	for _, c := range []struct{ to, from string }{
		{"httpStatus", "status"},
		{"length", "length"},
		{"words", "words"},
		{"lines", "lines"},
		{"contentType", "content-type"},
		{"redirectlocation", "redirectlocation"},
		{"duration", "duration"},
		{"hostname", "host"},
		{"input", "input"},
	} {
		ecma.Copy(&f.Attributes, c.to, result, c.from)
	}
	f.Attributes = append(f.Attributes, r.postdata...)
	f.Attributes = append(f.Attributes, r.headers...)
	ecma.SetText(&f, &f.Location, "location", result, "url")
	return emit(&f)
}

// members returns what ECMAScript finds under a result's keys. Results that are not objects do not come from ffuf; they
// are findings nevertheless, which is how clients of the format know it.
func members(v any) finding.Object {
	switch v := v.(type) {
	case finding.Object:
		return v
	case []any:
		return finding.Object{{Key: "length", Value: len(v)}}
	case string:
		return finding.Object{{Key: "length", Value: ecma.Length(v)}}
	}
	return nil
}
