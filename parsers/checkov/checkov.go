// SPDX-License-Identifier: Apache-2.0

package checkov

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	categoryMisconfiguration = "Misconfiguration"
	categorySecret           = "Potential Secret"
	categoryVulnerability    = "Vulnerability"
	categoryLicense          = "License Violation"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "checkov-json",
		Summary:    "checkov JSON report (-o json)",
		Kinds:      kinds(),
		Reach:      "the summary: resources and checks",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list, number = sdk.Text | sdk.Optional, sdk.List | sdk.Optional, sdk.Number | sdk.Optional
	kind := func(category, when string, identity []string, more ...sdk.Attribute) sdk.Kind {
		return sdk.Kind{
			Category: category, When: when + "; the severity is checkov's, MEDIUM if it says none", Severities: severity.All(),
			Identity: append([]string{"attributes.check_id", "location"}, identity...),
			Attributes: append([]sdk.Attribute{
				{Name: "check_id", Type: sdk.Text},
				{Name: "bc_check_id", Type: text, Doc: "its name on the vendor's platform"},
				{Name: "check_type", Type: text, Doc: "the framework: terraform, kubernetes, dockerfile, …"},
				{Name: "check_class", Type: text, Doc: "the code of the check"},
				{Name: "file", Type: text},
				{Name: "line", Type: number},
				{Name: "end_line", Type: number},
				{Name: "resource", Type: text},
				{Name: "evaluated_keys", Type: list, Doc: "what in the resource was looked at"},
				{Name: "original_severity", Type: text},
			}, more...),
		}
	}
	pkg := []sdk.Attribute{{Name: "package", Type: text}, {Name: "installed_version", Type: text}, {Name: "package_type", Type: text}}
	license := []sdk.Attribute{{Name: "license", Type: text}}
	vulnerability := []sdk.Attribute{
		{Name: "vulnerability_id", Type: sdk.Text},
		{Name: "fixed_versions", Type: list},
		{Name: "fix_state", Type: text, Doc: "in checkov's words: fixed in 1.2.6"},
		{Name: "cvss_score", Type: number},
		{Name: "cvss_vector", Type: text},
	}
	byPackage := []string{"attributes.package"}
	return []sdk.Kind{
		kind(categoryMisconfiguration, "a failed check of infrastructure as code", []string{"attributes.resource"}),
		kind(categorySecret, "a failed check for secrets", []string{"attributes.resource"}),
		kind(categoryVulnerability, "a vulnerability in a package", byPackage, slices.Concat(pkg, vulnerability)...),
		kind(categoryLicense, "a package with a licence that is not allowed", byPackage, slices.Concat(pkg, license)...),
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	types, done, err := readTypes(ctx, in)
	if err != nil {
		return err
	}
	done.reportReach(in)
	return eachReport(ctx, in, func(r *jsonstream.Reader, i int) error {
		if i >= len(types) {
			return errors.New("was not there in the first pass")
		}
		return eachCheck(ctx, r, func(check finding.Object) error {
			f, err := newFinding(check, types[i])
			if err != nil {
				return err
			}
			return emit(f)
		})
	})
}

// maxReports is far more than checkov has frameworks.
const maxReports = 10_000

// readTypes passes over the results, and sees that each object is a report.
func readTypes(ctx context.Context, in *sdk.Input) (types []string, done summary, err error) {
	err = eachReport(ctx, in, func(r *jsonstream.Reader, _ int) error {
		known, checkType := false, ""
		err := r.Object(func(key string) error {
			switch key {
			case "check_type":
				v, err := r.Value()
				checkType, _ = v.(string)
				return err
			case "results", "checkov_version":
				known = true
			case "summary":
				v, err := r.Value()
				o, _ := v.(finding.Object)
				done.add(o)
				return err
			case "resource_count":
				v, err := r.Value()
				done.add(finding.Object{{Key: key, Value: v}})
				return err
			}
			return nil
		})
		if err == nil && !known {
			err = errors.New("is not a checkov report: has neither results nor a checkov_version")
		}
		if len(types) == maxReports {
			err = fmt.Errorf("%w: more than %d reports", jsonstream.ErrTooLarge, maxReports)
		}
		types = append(types, checkType)
		return err
	})
	return types, done, err
}

// summary counts what checkov says that it has done, over all frameworks.
type summary struct {
	reports           int // with a summary
	checks, resources float64
}

func (s *summary) add(o finding.Object) {
	if resources, ok := jsondoc.Number(o, "resource_count"); ok {
		s.reports++
		s.resources += resources
	}
	for _, key := range []string{"passed", "failed", "skipped"} {
		n, _ := jsondoc.Number(o, key)
		s.checks += n
	}
}

// reportReach reports what was reached.
func (s *summary) reportReach(in *sdk.Input) {
	switch {
	case s.checks > 0 || s.resources > 0:
		in.Reached("%.0f resources, %.0f checks", s.resources, s.checks)
	case s.reports > 0:
		in.NothingReached("0 resources were checked")
	default:
		in.ReachUnknown("the report has no summary")
	}
}

// eachReport walks one report, or an array of them.
func eachReport(ctx context.Context, in *sdk.Input, visit func(r *jsonstream.Reader, i int) error) error {
	return jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		if kind, err := r.Kind(); err != nil || kind != jsonstream.Array {
			if err == nil {
				err = visit(r, 0)
			}
			return err
		}
		return r.Array(func(i int) error {
			if err := visit(r, i); err != nil {
				return fmt.Errorf("report %d: %w", i, err)
			}
			return ctx.Err()
		})
	})
}

func eachCheck(ctx context.Context, r *jsonstream.Reader, visit func(finding.Object) error) error {
	return r.Object(func(key string) error {
		if key != "results" {
			return nil
		}
		if kind, err := r.Kind(); err != nil || kind == jsonstream.Null {
			return err // nothing was checked; the null is passed over
		}
		return r.Object(func(key string) error {
			if key != "failed_checks" {
				return nil
			}
			return jsondoc.Elements(ctx, r, "failed check", visit)
		})
	})
}

func newFinding(check finding.Object, checkType string) (*finding.Finding, error) {
	id, err := jsondoc.Need(check, "check_id")
	if err != nil {
		return nil, err
	}
	details := jsondoc.Object(check, "vulnerability_details")
	word := cmp.Or(jsondoc.Text(check, "severity"), jsondoc.Text(details, "severity"))
	file := cmp.Or(jsondoc.Text(check, "repo_file_path"), jsondoc.Text(check, "file_path"))
	f := &finding.Finding{
		Name:     finding.String(cmp.Or(jsondoc.Text(check, "check_name"), id)),
		Category: finding.String(categoryOf(checkType, details)),
		OSILayer: finding.String("NOT_APPLICABLE"),
		Severity: finding.String(rate(word, details)),
		Attributes: finding.Object{
			{Key: "check_id", Value: id},
		},
	}
	if file != "" {
		f.Location = finding.String(file)
	}
	if text := cmp.Or(jsondoc.Text(check, "description"), jsondoc.Text(details, "description"), jsondoc.Text(check, "short_description")); text != "" {
		f.Description = finding.String(text)
	}
	a := &f.Attributes
	jsondoc.Set(a, "bc_check_id", jsondoc.Text(check, "bc_check_id"))
	jsondoc.Set(a, "check_type", checkType)
	jsondoc.Set(a, "check_class", jsondoc.Text(check, "check_class"))
	jsondoc.Set(a, "file", file)
	setLines(a, check)
	jsondoc.Set(a, "resource", jsondoc.Text(check, "resource"))
	jsondoc.Set(a, "evaluated_keys", jsondoc.Texts(check, "check_result", "evaluated_keys"))
	jsondoc.Set(a, "original_severity", word)
	var list refs.List
	setPackage(f, details, &list)
	list.URL(jsondoc.Text(check, "guideline"))
	f.References = list.References()
	return f, nil
}

func categoryOf(checkType string, details finding.Object) string {
	switch checkType {
	case "sca_package", "sca_image":
		switch {
		case jsondoc.Text(details, "id") != "":
			return categoryVulnerability
		case details != nil:
			return categoryLicense
		}
	case "secrets":
		return categorySecret
	}
	return categoryMisconfiguration
}

func rate(word string, details finding.Object) string {
	if rated, ok := severity.OfWord(word); ok {
		return rated
	}
	if score, ok := severity.Score(jsondoc.Member(details, "cvss")); ok {
		rated, _ := severity.OfScore(score)
		return rated
	}
	return finding.Medium
}

func setLines(a *finding.Object, check finding.Object) {
	lines, _ := jsondoc.Member(check, "file_line_range").([]any)
	for i, key := range []string{"line", "end_line"} {
		if i < len(lines) {
			if line, ok := lines[i].(float64); ok && line > 0 { // 0 where there are no lines
				jsondoc.Set(a, key, line)
			}
		}
	}
}

// setPackage adds what the checks of packages have.
func setPackage(f *finding.Finding, details finding.Object, list *refs.List) {
	category := f.Category.Or("")
	if category != categoryVulnerability && category != categoryLicense {
		return
	}
	a := &f.Attributes
	name := jsondoc.Text(details, "package_name")
	jsondoc.Set(a, "package", name)
	jsondoc.Set(a, "installed_version", jsondoc.Text(details, "package_version"))
	jsondoc.Set(a, "package_type", jsondoc.Text(details, "package_type"))
	if category == categoryLicense {
		license := jsondoc.Text(details, "license")
		jsondoc.Set(a, "license", license)
		if name != "" && license != "" {
			f.Name = finding.String("License of " + name + " is not allowed: " + license)
		}
		return
	}
	id := jsondoc.Text(details, "id")
	if name != "" {
		f.Name = finding.String(id + " in " + name)
	}
	fixed := jsondoc.Texts(details, "fixed_versions")
	if lowest := jsondoc.Text(details, "lowest_fixed_version"); len(fixed) == 0 && lowest != "" {
		fixed = []string{lowest}
	}
	if len(fixed) > 0 && name != "" {
		f.Mitigation = finding.String("Update " + name + " to version " + fixed[0] + ".")
	}
	jsondoc.Set(a, "vulnerability_id", id)
	jsondoc.Set(a, "fixed_versions", fixed)
	jsondoc.Set(a, "fix_state", jsondoc.Text(details, "status"))
	if score, ok := severity.Score(jsondoc.Member(details, "cvss")); ok {
		jsondoc.Set(a, "cvss_score", score)
	}
	jsondoc.Set(a, "cvss_vector", jsondoc.Text(details, "vector"))
	list.ID(id)
	list.URL(jsondoc.Text(details, "link"))
}
