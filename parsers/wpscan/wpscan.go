// SPDX-License-Identifier: Apache-2.0

package wpscan

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
		ResultType: "wpscan-json",
		Summary:    "WPScan JSON report (-f json)",
		Kinds:      kinds(),
		Reach:      "target_url, or scan_aborted with the reason",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list, object = sdk.Text | sdk.AsReported, sdk.List | sdk.AsReported, sdk.Map | sdk.AsReported
	shared := []sdk.Attribute{
		{Name: "hostname", Type: text, Doc: "the URL of the site"},
		{Name: "wp_interesting_entries", Type: list},
		{Name: "wp_found_by", Type: text},
		{Name: "wp_confirmed_by", Type: object},
	}
	return []sdk.Kind{
		{
			Category:   "WordPress Service",
			When:       "the site that was scanned",
			Severities: []string{finding.Informational},
			Attributes: append([]sdk.Attribute{
				{Name: "ip_addresses", Type: sdk.List, Doc: "one element, null where WPScan does not say"},
				{Name: "wpscan_version", Type: text},
				{Name: "wpscan_requests", Type: sdk.Number | sdk.AsReported, Doc: "how many it made"},
				{Name: "wp_version", Type: text, Doc: "absent, as the others, if it was not detected"},
				{Name: "wp_release_date", Type: text},
				{Name: "wp_release_status", Type: text, Doc: "latest, outdated or insecure"},
				{Name: "wp_vulnerabilities", Type: list, Doc: "of this version"},
			}, shared...),
			Identity: []string{"location"},
		},
		{
			Category:   sdk.AnyCategory,
			When:       "an interesting finding of WPScan; the category is WordPress and its type: WordPress readme",
			Severities: []string{finding.Informational},
			Attributes: shared,
			Identity:   []string{"location"},
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	site := site{}
	if err := jsonstream.Read(ctx, in, site.read); err != nil {
		return err
	}
	target, _ := site.report.Get("target_url")
	site.reportReach(in, ecma.Truthy(target))
	if !ecma.Truthy(target) {
		return nil
	}
	f, err := site.finding(target)
	if err != nil {
		return err
	}
	if err := emit(f); err != nil {
		return err
	}
	return jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		return report.Object(func(key string) error {
			if key != keyFindings {
				return nil
			}
			return report.Array(func(i int) error {
				v, err := report.Value()
				if err != nil {
					return err
				}
				if err := parseFinding(v, target, emit); err != nil {
					return fmt.Errorf("interesting finding %d: %w", i, err)
				}
				return ctx.Err()
			})
		})
	})
}

func parseFinding(v, target any, emit sdk.Emit) error {
	found, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	typ := ecma.Property(found, "type")
	f := finding.Finding{
		Name:       finding.String("WordPress finding '" + typ + "'"),
		Category:   finding.String("WordPress " + typ),
		OSILayer:   finding.String("APPLICATION"),
		Severity:   finding.String(finding.Informational),
		Attributes: finding.Object{{Key: "hostname", Value: target}},
	}
	if err := setReferences(&f, found); err != nil {
		return err
	}
	ecma.SetText(&f, &f.Description, "description", found, "to_s")
	ecma.SetText(&f, &f.Location, "location", found, "url")
	ecma.Copy(&f.Extra, "confidence", found, "confidence")
	ecma.Copy(&f.Attributes, "wp_interesting_entries", found, "interesting_entries")
	ecma.Copy(&f.Attributes, "wp_found_by", found, "found_by")
	ecma.Copy(&f.Attributes, "wp_confirmed_by", found, "confirmed_by")
	return emit(&f)
}

// setReferences makes one reference of each element of each list. Values that are not texts go to Extra, for the schema
// to refuse.
func setReferences(f *finding.Finding, found finding.Object) error {
	v, _ := found.Get("references")
	lists, ok := ecma.Entries(v)
	if !ok {
		return errors.New("has no references")
	}
	var all []any
	f.References = finding.References{Null: true}
	texts := true
	for _, list := range lists {
		values, ok := list.Value.([]any)
		if !ok {
			return fmt.Errorf("has references of type %.100q that are not a list", list.Key)
		}
		typ := ecma.ToUpper(list.Key)
		for _, value := range values {
			text, isText := value.(string)
			texts = texts && isText
			f.References.List = append(f.References.List, finding.Reference{Type: typ, Value: text})
			all = append(all, finding.Object{{Key: "type", Value: typ}, {Key: "value", Value: value}})
		}
	}
	f.References.Null = len(all) == 0
	if !texts {
		f.References = finding.References{}
		f.Extra.Set("references", all)
	}
	return nil
}
