// SPDX-License-Identifier: Apache-2.0

package osvscanner

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	categoryVulnerability = "Vulnerability"
	categoryLicense       = "License Violation"
	categoryDeprecated    = "Deprecated Package"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "osv-scanner-json",
		Summary:    "osv-scanner JSON report (--format json)",
		Kinds:      kinds(),
		Reach:      "sources with packages to report; without any it is unknown",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list = sdk.Text | sdk.Optional, sdk.List | sdk.Optional
	aboutPackage := func(more ...sdk.Attribute) []sdk.Attribute {
		return append([]sdk.Attribute{
			{Name: "package", Type: sdk.Text},
			{Name: "installed_version", Type: text},
			{Name: "ecosystem", Type: text, Doc: "npm, Go, PyPI, Debian:12, …"},
			{Name: "commit", Type: text, Doc: "of a package that has no version"},
			{Name: "source", Type: text, Doc: "path of the lock file, SBOM or image"},
			{Name: "source_type", Type: text, Doc: "lockfile, sbom, docker, …"},
			{Name: "dependency_groups", Type: list, Doc: "such as dev"},
		}, more...)
	}
	return []sdk.Kind{
		{
			Category: categoryVulnerability, Severities: severity.All(),
			When: "a group of advisories that speak of the same vulnerability in a package; the severity is that of its " +
				"CVSS score, else of the word in its advisories, else INFORMATIONAL",
			Identity: []string{"location", "attributes.ecosystem", "attributes.package", "attributes.vulnerability_id"},
			Attributes: aboutPackage(
				sdk.Attribute{Name: "vulnerability_id", Type: sdk.Text, Doc: "the first of the group"},
				sdk.Attribute{Name: "aliases", Type: list, Doc: "its other names"},
				sdk.Attribute{Name: "fixed_versions", Type: list, Doc: "of all branches of the package"},
				sdk.Attribute{Name: "cvss_score", Type: sdk.Number | sdk.Optional},
				sdk.Attribute{Name: "cvss_vector", Type: text, Doc: "that of the score"},
				sdk.Attribute{Name: "original_severity", Type: text, Doc: "the word in the advisory"},
				sdk.Attribute{Name: "called", Type: sdk.Bool | sdk.Optional, Doc: "whether the call analysis, if there was one, found a call"},
			),
		},
		{
			Category: categoryLicense, Severities: []string{finding.Low}, When: "a package with a licence that is not allowed",
			Identity: []string{"location", "attributes.ecosystem", "attributes.package", "attributes.violations"},
			Attributes: aboutPackage(
				sdk.Attribute{Name: "licenses", Type: list}, sdk.Attribute{Name: "violations", Type: sdk.List},
			),
		},
		{
			Category: categoryDeprecated, Severities: []string{finding.Informational}, When: "a package that is deprecated",
			Identity:   []string{"location", "attributes.ecosystem", "attributes.package"},
			Attributes: aboutPackage(),
		},
	}
}

type source struct{ path, typ string }

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	sources, err := readSources(ctx, in)
	if err != nil {
		return err
	}
	if len(sources) == 0 { // unless it is asked for all packages, it lists only those that something is wrong with
		in.ReachUnknown("osv-scanner has no results, and does not report what it has looked at")
	} else {
		in.Reached("%s looked at", sdk.Counted(len(sources), "source was", "sources were"))
	}
	return eachResult(ctx, in, func(r *jsonstream.Reader, i int) error {
		if i >= len(sources) {
			return errors.New("was not there in the first pass")
		}
		p := pkgParser{source: sources[i], emit: emit}
		return r.Object(func(key string) error {
			if key != "packages" {
				return nil
			}
			return jsondoc.Elements(ctx, r, "package", p.parse)
		})
	})
}

// readSources passes over the packages.
func readSources(ctx context.Context, in *sdk.Input) (sources []source, err error) {
	const entry = 64
	held := 0
	err = eachResult(ctx, in, func(r *jsonstream.Reader, _ int) error {
		var s source
		err := r.Object(func(key string) error {
			if key != "source" {
				return nil
			}
			v, err := r.Value()
			o, _ := v.(finding.Object)
			s = source{path: jsondoc.Text(o, "path"), typ: jsondoc.Text(o, "type")}
			return err
		})
		if held += entry + len(s.path) + len(s.typ); held > in.Limits.MaxHeld {
			return fmt.Errorf("%w: sources that take more than %d bytes", jsonstream.ErrTooLarge, in.Limits.MaxHeld)
		}
		sources = append(sources, s)
		return err
	})
	return sources, err
}

// eachResult walks the report and its results.
func eachResult(ctx context.Context, in *sdk.Input, visit func(r *jsonstream.Reader, i int) error) error {
	hasResults := false
	err := jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			if key != "results" {
				return nil
			}
			hasResults = true
			if kind, err := r.Kind(); err != nil || kind == jsonstream.Null {
				return err // no results at all; the null is passed over
			}
			return r.Array(func(i int) error {
				if err := visit(r, i); err != nil {
					return fmt.Errorf("result %d: %w", i, err)
				}
				return ctx.Err()
			})
		})
	})
	if err == nil && !hasResults {
		err = errors.New(`is not an osv-scanner report: has no "results"`)
	}
	return err
}
