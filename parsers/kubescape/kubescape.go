// SPDX-License-Identifier: Apache-2.0

package kubescape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "kubescape-json",
		Summary:    "kubescape JSON report (--format json)",
		Kinds:      kinds(),
		Reach:      "resources, or results",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list = sdk.Text | sdk.Optional, sdk.List | sdk.Optional
	return []sdk.Kind{{
		Category:   "Misconfiguration",
		When:       "a control that a resource fails; the severity is that of the control's score factor: 7 and more HIGH, 4 MEDIUM, 1 LOW",
		Severities: severity.All(),
		Attributes: []sdk.Attribute{
			{Name: "control_id", Type: sdk.Text},
			{Name: "control_name", Type: text},
			{Name: "control_category", Type: text},
			{Name: "original_severity", Type: text, Doc: "Critical, High, Medium, Low or Unknown"},
			{Name: "score_factor", Type: sdk.Number | sdk.Optional, Doc: "of the control, 0 to 10"},
			{Name: "resource_id", Type: sdk.Text},
			{Name: "api_version", Type: text},
			{Name: "kind", Type: text},
			{Name: "name", Type: text},
			{Name: "namespace", Type: text},
			{Name: "file", Type: text, Doc: "if manifests were scanned"},
			{Name: "cluster", Type: text},
			{Name: "rules", Type: list, Doc: "the rules of the control that failed"},
			{Name: "failed_paths", Type: list, Doc: "what in the resource is wrong"},
			{Name: "fix_paths", Type: list, Doc: "what it should be: path=value"},
		},
		Identity: []string{"attributes.control_id", "location"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	x := index{limit: in.Limits.MaxHeld, controls: map[string]control{}, resources: map[string]resource{}}
	if err := x.read(ctx, in); err != nil {
		return err
	}
	if x.looked == 0 {
		in.NothingReached("0 resources were looked at")
	} else {
		in.Reached("%s looked at", sdk.Counted(x.looked, "resource was", "resources were"))
	}
	return jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			if key != "results" {
				return nil
			}
			return jsondoc.Elements(ctx, r, "result", func(result finding.Object) error {
				return x.parseResult(result, emit)
			})
		})
	})
}

func (x *index) parseResult(result finding.Object, emit sdk.Emit) error {
	id, err := jsondoc.Need(result, "resourceID")
	if err != nil {
		return err
	}
	for i, failed := range jsondoc.Objects(result, "controls") {
		if statusOf(failed) != "failed" {
			continue
		}
		f, err := x.finding(id, failed)
		if err != nil {
			return fmt.Errorf("control %d %w", i, err)
		}
		if err := emit(f); err != nil {
			return err
		}
	}
	return nil
}

// statusOf reads the status, an object in today's reports and a text in older ones.
func statusOf(control finding.Object) string {
	if s := jsondoc.Text(control, "status", "status"); s != "" {
		return s
	}
	return jsondoc.Text(control, "status")
}

func (x *index) finding(id string, failed finding.Object) (*finding.Finding, error) {
	controlID, err := jsondoc.Need(failed, "controlID")
	if err != nil {
		return nil, err
	}
	control := x.controls[controlID]
	res, known := x.resources[id]
	if !known {
		res = resourceOf(id)
	}
	name := cmp.Or(jsondoc.Text(failed, "name"), control.name)
	link := "https://hub.armosec.io/docs/" + strings.ToLower(controlID)
	f := &finding.Finding{
		Name:       finding.String(cmp.Or(name, controlID)),
		Category:   finding.String("Misconfiguration"),
		OSILayer:   finding.String("NOT_APPLICABLE"),
		Location:   finding.String(x.locationOf(res)),
		Severity:   finding.String(rate(control)),
		References: finding.References{List: []finding.Reference{{Type: "URL", Value: link}}},
		Attributes: finding.Object{{Key: "control_id", Value: controlID}, {Key: "resource_id", Value: id}},
	}
	if control.description != "" {
		f.Description = finding.String(control.description)
	}
	if control.remediation != "" {
		f.Mitigation = finding.String(control.remediation)
	}
	a := &f.Attributes
	jsondoc.Set(a, "control_name", name)
	jsondoc.Set(a, "control_category", control.category)
	jsondoc.Set(a, "original_severity", wordOf(control))
	if control.scored {
		jsondoc.Set(a, "score_factor", control.score)
	}
	jsondoc.Set(a, "api_version", res.apiVersion)
	jsondoc.Set(a, "kind", res.kind)
	jsondoc.Set(a, "name", res.name)
	jsondoc.Set(a, "namespace", res.namespace)
	jsondoc.Set(a, "file", res.file)
	jsondoc.Set(a, "cluster", x.cluster)
	setRules(a, failed)
	return f, nil
}

// rate follows the bands in which kubescape prints severities. They are those of CVSS, but for scores below 1.
func rate(c control) string {
	if !c.scored || c.score < 1 {
		return finding.Informational
	}
	rated, ok := severity.OfScore(c.score)
	if !ok {
		return finding.Informational
	}
	return rated
}

func wordOf(c control) string {
	switch {
	case !c.scored:
		return ""
	case c.score >= 9:
		return "Critical"
	case c.score >= 7:
		return "High"
	case c.score >= 4:
		return "Medium"
	case c.score >= 1:
		return "Low"
	}
	return "Unknown"
}

// locationOf is a path to the resource: in its cluster, or in its file.
func (x *index) locationOf(r resource) string {
	parts := []string{r.namespace, r.kind, r.name}
	if r.file != "" {
		parts = append([]string{r.file}, parts...)
	} else if x.cluster != "" {
		parts = append([]string{x.cluster}, parts...)
	}
	var present []string
	for _, part := range parts {
		if part != "" {
			present = append(present, part)
		}
	}
	return strings.Join(present, "/")
}

// setRules lists what failed, and what kubescape proposes.
func setRules(a *finding.Object, failed finding.Object) {
	var rules, paths, fixes []string
	for _, rule := range jsondoc.Objects(failed, "rules") {
		if jsondoc.Text(rule, "status") != "failed" {
			continue
		}
		if name := jsondoc.Text(rule, "name"); name != "" {
			rules = append(rules, name)
		}
		for _, path := range jsondoc.Objects(rule, "paths") {
			for _, key := range []string{"failedPath", "reviewPath", "deletePath"} {
				if text := jsondoc.Text(path, key); text != "" && (len(paths) == 0 || paths[len(paths)-1] != text) {
					paths = append(paths, text)
				}
			}
			if fix := jsondoc.Text(path, "fixPath", "path"); fix != "" {
				fixes = append(fixes, fix+"="+jsondoc.Text(path, "fixPath", "value"))
			}
		}
	}
	jsondoc.Set(a, "rules", rules)
	jsondoc.Set(a, "failed_paths", paths)
	jsondoc.Set(a, "fix_paths", fixes)
}

var errNoReport = errors.New(`is not a kubescape report: has no "results" or no "summaryDetails"`)
