// SPDX-License-Identifier: Apache-2.0

package sarif

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// run is what results of one run refer to.
type run struct {
	tool, version string
	// components are the driver, and behind it the extensions.
	components []component
	// artifacts are URIs in their order; lost says that they were too large to be kept.
	artifacts []string
	lost      bool
	overrides [][]override
	// complaint is what the tool says about its failure, if it failed.
	complaint string
	hasResult bool
}

type component struct {
	name, guid string
	rules      []*rule
	byID       map[string]*rule
	byGUID     map[string]*rule
	messages   map[string]string
}

// rule is what a finding needs of a reportingDescriptor.
type rule struct {
	id, name, short, helpURI, level, precision string
	score                                      any // security-severity as the rule has it
	tags, weaknesses                           []string
	messages                                   map[string]string
}

type override struct {
	rule  ruleRef
	level string
}

// ruleRef names a rule.
type ruleRef struct {
	id, guid  string
	index     int
	component componentRef
}

// componentRef names a component.
type componentRef struct {
	name, guid string
	index      int
}

// index reads the log for everything but the results.
type index struct {
	limits sdk.Limits
	runs   []*run
	// used counts the bytes of runs and rules, files those of artifacts. The bounds are apart, so that many files in
	// front of the rules do not make the rules too large.
	used, files int
}

var errTooLarge = errors.New("too large")

func (x *index) read(ctx context.Context, in *sdk.Input) error {
	version, hasRuns := "", false
	err := jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			switch key {
			case "version":
				v, err := r.Value()
				version = finding.ToString(v)
				return err
			case "runs":
				hasRuns = true
				return r.Array(func(i int) error {
					if err := x.readRun(r); err != nil {
						return fmt.Errorf("run %d: %w", i, err)
					}
					return ctx.Err()
				})
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case !hasRuns:
		return errors.New(`is not a SARIF log: has no "runs"`)
	case version != "2.1.0":
		return fmt.Errorf("is SARIF version %.20q, must be 2.1.0", version)
	}
	for i, run := range x.runs {
		if run.complaint != "" && !run.hasResult {
			return fmt.Errorf("run %d: %s was not successful and has no results: %s", i, run.tool, run.complaint)
		}
	}
	return nil
}

func (x *index) readRun(r *jsonstream.Reader) error {
	run := &run{components: make([]component, 1)}
	x.runs = append(x.runs, run)
	if err := x.hold(sizeOfRun); err != nil {
		return err
	}
	err := r.Object(func(key string) error {
		switch key {
		case "tool":
			return x.readTool(r, run)
		case "artifacts":
			return x.readArtifacts(r, run)
		case "invocations":
			return x.readInvocations(r, run)
		case "externalPropertyFileReferences":
			v, err := r.Value()
			if o, ok := v.(finding.Object); ok && len(jsondoc.Objects(o, "results")) > 0 {
				return errors.New("its results are in other files (externalPropertyFileReferences), which are not here")
			}
			return err
		case "results":
			return eachOf(r, func() error { run.hasResult = true; return nil })
		}
		return nil
	})
	if err == nil && run.tool == "" {
		return errors.New("has no tool.driver.name")
	}
	return err
}

// The sizes are about what structs and texts take beside their bytes.
const (
	sizeOfRun   = 1 << 10
	sizeOfEntry = 1 << 8
	sizeOfText  = 16
	maxTags     = 50
	maxText     = 2 << 10
)

// hold counts what is kept.
func (x *index) hold(bytes int) error {
	if x.used += bytes; x.used > x.limits.MaxHeld {
		return fmt.Errorf("%w: runs and rules that take more than %d bytes", errTooLarge, x.limits.MaxHeld)
	}
	return nil
}

// eachOf walks an array in whose place null may stand.
func eachOf(r *jsonstream.Reader, one func() error) error {
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	if kind == jsonstream.Null {
		return r.Skip()
	}
	return r.Array(func(int) error { return one() })
}

func (x *index) readTool(r *jsonstream.Reader, run *run) error {
	return r.Object(func(key string) error {
		switch key {
		case "driver":
			return x.readComponent(r, &run.components[0], run)
		case "extensions":
			return eachOf(r, func() error {
				run.components = append(run.components, component{})
				return x.readComponent(r, &run.components[len(run.components)-1], nil)
			})
		}
		return nil
	})
}

// readComponent reads a toolComponent; of the driver also what the run is called.
func (x *index) readComponent(r *jsonstream.Reader, c *component, driven *run) error {
	c.byID, c.byGUID = map[string]*rule{}, map[string]*rule{}
	if err := x.hold(sizeOfEntry); err != nil {
		return err
	}
	return r.Object(func(key string) error {
		switch key {
		case "name", "guid", "version", "semanticVersion", "globalMessageStrings":
			v, err := r.Value()
			if err != nil {
				return err
			}
			return x.keepOf(c, driven, key, v)
		case "rules":
			return eachOf(r, func() error {
				v, err := r.Value()
				if err != nil {
					return err
				}
				o, ok := v.(finding.Object)
				if !ok {
					return errors.New("a rule is not an object")
				}
				return x.addRule(c, o)
			})
		}
		return nil
	})
}

func (x *index) keepOf(c *component, driven *run, key string, v any) error {
	if key == "globalMessageStrings" {
		var err error
		c.messages, err = x.messages(v)
		return err
	}
	text, _ := v.(string)
	switch {
	case key == "name":
		c.name = text
		if driven != nil {
			driven.tool = text
		}
	case key == "guid":
		c.guid = text
	case driven != nil && (key == "semanticVersion" || driven.version == ""):
		driven.version = text
	}
	return x.hold(len(text))
}

func (x *index) addRule(c *component, o finding.Object) error {
	rule := &rule{
		id:        jsondoc.Text(o, "id"),
		name:      jsondoc.Text(o, "name"),
		short:     cut(jsondoc.Text(o, "shortDescription", "text")),
		helpURI:   cut(jsondoc.Text(o, "helpUri")),
		level:     cut(jsondoc.Text(o, "defaultConfiguration", "level")),
		precision: cut(jsondoc.Text(o, "properties", "precision")),
	}
	switch score := jsondoc.Member(o, "properties", "security-severity").(type) {
	case string:
		rule.score = cut(score)
	case float64:
		rule.score = score
	}
	for _, tag := range jsondoc.Texts(o, "properties", "tags") {
		if len(rule.tags) < maxTags {
			rule.tags = append(rule.tags, cut(tag))
		}
	}
	for _, relation := range jsondoc.Objects(o, "relationships") {
		if id := weaknessOf(jsondoc.Object(relation, "target")); id != "" && len(rule.weaknesses) < maxTags {
			rule.weaknesses = append(rule.weaknesses, id)
		}
	}
	var err error
	if rule.messages, err = x.messages(jsondoc.Member(o, "messageStrings")); err != nil {
		return err
	}
	c.rules = append(c.rules, rule)
	c.byID[rule.id] = rule
	guid := cut(jsondoc.Text(o, "guid"))
	if guid != "" {
		c.byGUID[guid] = rule
	}
	size := sizeOfEntry + len(guid) + len(rule.id) + len(rule.name) + len(rule.short) + len(rule.helpURI)
	for _, text := range append(rule.tags, rule.weaknesses...) {
		size += len(text) + sizeOfText
	}
	return x.hold(size)
}

// cut bounds a text that is a heading or a tag, at a character.
func cut(s string) string { return text.Cut(s, maxText) }

// messages keeps the texts of messageStrings or globalMessageStrings.
func (x *index) messages(v any) (map[string]string, error) {
	o, _ := v.(finding.Object)
	if len(o) == 0 {
		return nil, nil
	}
	kept := make(map[string]string, len(o))
	for _, m := range o {
		inner, _ := m.Value.(finding.Object)
		kept[m.Key] = cut(jsondoc.Text(inner, "text"))
		if err := x.hold(len(m.Key) + len(kept[m.Key]) + 64); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// weaknessOf returns the CWE that a reportingDescriptorReference means.
func weaknessOf(target finding.Object) string {
	if name := jsondoc.Text(target, "toolComponent", "name"); name != "CWE" {
		return ""
	}
	id := jsondoc.Text(target, "id")
	if id != "" && id[0] >= '0' && id[0] <= '9' {
		id = "CWE-" + id
	}
	return cut(id)
}

func (x *index) readArtifacts(r *jsonstream.Reader, run *run) error {
	return eachOf(r, func() error {
		v, err := r.Value()
		if err != nil || run.lost {
			return err
		}
		o, _ := v.(finding.Object)
		uri := jsondoc.Text(o, "location", "uri")
		if x.files += len(uri) + sizeOfText; x.files > x.limits.MaxHeld/2 {
			for _, kept := range append(run.artifacts, uri) {
				x.files -= len(kept) + sizeOfText
			}
			run.artifacts, run.lost = nil, true
			return nil
		}
		run.artifacts = append(run.artifacts, uri)
		return nil
	})
}

func (x *index) readInvocations(r *jsonstream.Reader, run *run) error {
	return eachOf(r, func() error {
		v, err := r.Value()
		if err != nil {
			return err
		}
		o, _ := v.(finding.Object)
		var list []override
		size := sizeOfEntry
		for _, c := range jsondoc.Objects(o, "ruleConfigurationOverrides") {
			if level := jsondoc.Text(c, "configuration", "level"); level != "" {
				o := override{referenceOf(jsondoc.Object(c, "descriptor")), cut(level)}
				list = append(list, o)
				size += sizeOfEntry + len(o.rule.id) + len(o.rule.guid) + len(o.rule.component.name) + len(o.rule.component.guid) + len(o.level)
			}
		}
		run.overrides = append(run.overrides, list)
		if successful, ok := jsondoc.Member(o, "executionSuccessful").(bool); ok && !successful && run.complaint == "" {
			run.complaint = complaintOf(o)
		}
		return x.hold(size)
	})
}

func complaintOf(invocation finding.Object) string {
	for _, list := range []string{"toolExecutionNotifications", "toolConfigurationNotifications"} {
		for _, n := range jsondoc.Objects(invocation, list) {
			if text := jsondoc.Text(n, "message", "text"); text != "" {
				return fmt.Sprintf("%.300s", text)
			}
		}
	}
	if text := jsondoc.Text(invocation, "exitCodeDescription"); text != "" {
		return fmt.Sprintf("%.300s", text)
	}
	return "executionSuccessful is false"
}

// referenceOf reads a reportingDescriptorReference.
func referenceOf(o finding.Object) ruleRef {
	return ruleRef{
		id: jsondoc.Text(o, "id"), guid: jsondoc.Text(o, "guid"), index: indexAt(o, "index"),
		component: componentRef{
			name:  jsondoc.Text(o, "toolComponent", "name"),
			guid:  jsondoc.Text(o, "toolComponent", "guid"),
			index: indexAt(o, "toolComponent", "index"),
		},
	}
}

// indexAt returns -1 where there is no index.
func indexAt(o finding.Object, path ...string) int {
	f, ok := jsondoc.Number(o, path...)
	if !ok || f < 0 || f > 1<<30 || f != float64(int(f)) {
		return -1
	}
	return int(f)
}

// reportReach reports what was reached: a result speaks of something that was looked at, and so do the artifacts that tools list
// beside or without results.
func (x *index) reportReach(in *sdk.Input) {
	looked, silent := 0, ""
	for _, run := range x.runs {
		if run.hasResult || run.lost || len(run.artifacts) > 0 {
			looked++
		} else if silent == "" {
			silent = run.tool
		}
	}
	switch {
	case looked > 0:
		in.Reached("%d of %d runs looked at something", looked, len(x.runs))
	case silent != "":
		in.ReachUnknown("%.100s has no results, and does not report what it has looked at", silent)
	default:
		in.ReachUnknown("the log holds no runs")
	}
}
