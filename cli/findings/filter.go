// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/rating"
	"github.com/scanyard/scanyard/findings/report"
)

// filter selects the findings that the user wants to see.
type filter struct {
	severities  []string
	minSeverity string
	categories  []string
	locations   []string
	texts       []string
	minCVSS     float64
}

func (f *filter) bindFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.severities, "severity", nil, "only findings of these `severities`, separated by commas: high, medium, low, informational")
	flags.StringVar(&f.minSeverity, "min-severity", "", "only findings of this "+orWorse)
	flags.Float64Var(&f.minCVSS, "min-cvss", 0, "only findings with a CVSS `score` of this or more, such as 7.5")
	flags.StringArrayVar(&f.categories, "category", nil, "only findings of this `category`; * stands for any text; may be given several times")
	flags.StringArrayVar(
		&f.locations, "location", nil,
		"only findings whose location contains this `text`, or matches it whole where it has a *; may be given several times",
	)
	flags.StringArrayVar(&f.texts, "text", nil, "only findings that contain this `text` anywhere, in letters of any case; if given several times, all of them")
}

// severityFlag reads the severity of a flag.
func severityFlag(flag, text string) (report.Severity, error) {
	least, err := report.ParseThreshold(text)
	if err != nil || least.IsCritical() {
		return 0, fmt.Errorf("--%s: severity %q is none of %s", flag, text, strings.ToLower(strings.Join(report.SeverityNames(), ", ")))
	}
	return least.Least(), nil
}

// thresholdFlag reads the threshold of a flag.
func thresholdFlag(flag, text string) (report.Threshold, error) {
	least, err := report.ParseThreshold(text)
	if err != nil {
		return report.Threshold{}, fmt.Errorf("--%s: %w", flag, err)
	}
	return least, nil
}

// compile makes the filter that each finding passes.
func (f *filter) compile() (func(*report.Entry) bool, error) {
	checks, err := f.rated()
	if err != nil {
		return nil, err
	}
	if patterns := lowered(f.categories); len(patterns) > 0 {
		checks = append(checks, func(e *report.Entry) bool {
			category := strings.ToLower(e.Category)
			return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, category) })
		})
	}
	if patterns := lowered(f.locations); len(patterns) > 0 {
		checks = append(checks, func(e *report.Entry) bool {
			location := strings.ToLower(e.Location)
			return slices.ContainsFunc(patterns, func(p string) bool {
				return strings.Contains(p, "*") && matches(p, location) || strings.Contains(location, p)
			})
		})
	}
	for _, text := range lowered(f.texts) {
		checks = append(checks, func(e *report.Entry) bool { return says(e, text) })
	}
	return func(e *report.Entry) bool {
		for _, check := range checks {
			if !check(e) {
				return false
			}
		}
		return true
	}, nil
}

// rated makes the checks of severity and score.
func (f *filter) rated() (checks []func(*report.Entry) bool, err error) {
	if len(f.severities) > 0 {
		var wanted [report.Severities]bool
		for _, text := range f.severities {
			s, err := severityFlag("severity", text)
			if err != nil {
				return nil, err
			}
			wanted[s] = true
		}
		checks = append(checks, func(e *report.Entry) bool { return wanted[e.Severity] })
	}
	if f.minSeverity != "" {
		least, err := thresholdFlag("min-severity", f.minSeverity)
		if err != nil {
			return nil, err
		}
		checks = append(checks, least.Reached)
	}
	switch {
	case f.minCVSS < 0 || f.minCVSS > rating.Highest || math.IsNaN(f.minCVSS):
		return nil, fmt.Errorf("--min-cvss: %v is not between 0 and 10", f.minCVSS)
	case f.minCVSS > 0:
		checks = append(checks, func(e *report.Entry) bool {
			score, ok := rating.Score(e.Attributes)
			return ok && score >= f.minCVSS
		})
	}
	return checks, nil
}

// isSet reports whether the filter leaves out any finding.
func (f *filter) isSet() bool {
	return len(f.severities)+len(f.categories)+len(f.locations)+len(f.texts) > 0 || f.minSeverity != "" || f.minCVSS != 0
}

func lowered(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, strings.ToLower(t))
		}
	}
	return out
}

// matches compares a whole text with a pattern in which * means any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, last)
}

// says searches all texts of a finding for a text in lower case.
func says(e *report.Entry, text string) bool {
	if strings.EqualFold(e.ID, text) { // a part of an ID would match by chance
		return true
	}
	for _, part := range []string{e.Name, e.Description, e.Location, e.Category, e.Mitigation, e.OSILayer} {
		if strings.Contains(strings.ToLower(part), text) {
			return true
		}
	}
	for _, r := range e.References {
		if strings.Contains(strings.ToLower(r.Type+" "+r.Value), text) {
			return true
		}
	}
	return valueSays(e.Attributes, text)
}

// valueSays searches the keys and values of attributes.
func valueSays(v any, text string) bool {
	switch v := v.(type) {
	case nil:
		return false
	case finding.Object:
		return slices.ContainsFunc(v, func(m finding.Member) bool {
			return strings.Contains(strings.ToLower(m.Key), text) || valueSays(m.Value, text)
		})
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return valueSays(item, text) })
	default:
		return strings.Contains(strings.ToLower(finding.ToString(v)), text)
	}
}
