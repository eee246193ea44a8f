// SPDX-License-Identifier: Apache-2.0

package sarif

import (
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
)

// noRule describes a result whose rule the log does not describe.
var noRule = &rule{}

// ruleOf finds the rule of a result by 3.27.7: result.rule, ruleIndex and ruleId say the same in different ways.
func (run *run) ruleOf(result finding.Object) (ref ruleRef, found *rule) {
	ref = referenceOf(jsondoc.Object(result, "rule"))
	if ref.index < 0 {
		ref.index = indexAt(result, "ruleIndex")
	}
	if ref.id == "" {
		ref.id = jsondoc.Text(result, "ruleId")
	}
	return ref, run.find(ref)
}

// find returns noRule if there is none.
func (run *run) find(ref ruleRef) *rule {
	c := run.componentOf(ref.component)
	if ref.index >= 0 && ref.index < len(c.rules) && c.rules[ref.index].mayBe(ref.id) {
		return c.rules[ref.index]
	}
	if found := c.byGUID[ref.guid]; found != nil && ref.guid != "" {
		return found
	}
	if found := c.lookup(ref.id); found != nil {
		return found
	}
	for i := range run.components { // tools forget to say that the rule is one of an extension
		if found := run.components[i].lookup(ref.id); found != nil {
			return found
		}
	}
	return noRule
}

// mayBe reports that an index does not contradict the id beside it: tools that do not know the index write 0.
func (r *rule) mayBe(id string) bool {
	return id == "" || id == r.id || strings.HasPrefix(id, r.id+"/")
}

// lookup finds a rule by its id, or by a leading part of it: CA1000/1 is a case of rule CA1000.
func (c *component) lookup(id string) *rule {
	for id != "" {
		if found := c.byID[id]; found != nil {
			return found
		}
		slash := strings.LastIndexByte(id, '/')
		if slash < 0 {
			return nil
		}
		id = id[:slash]
	}
	return nil
}

// componentOf is the driver where the reference says nothing.
func (run *run) componentOf(ref componentRef) *component {
	if ref.index >= 0 && ref.index+1 < len(run.components) {
		return &run.components[ref.index+1]
	}
	for i := range run.components {
		c := &run.components[i]
		if ref.guid != "" && c.guid == ref.guid || ref.guid == "" && ref.name != "" && c.name == ref.name {
			return c
		}
	}
	return &run.components[0]
}

// levelOf follows 3.27.10.
func (run *run) levelOf(result finding.Object, kind string, found *rule) string {
	if level := jsondoc.Text(result, "level"); level != "" {
		return level
	}
	if kind != kindFail {
		return levelNone
	}
	if i := indexAt(result, "provenance", "invocationIndex"); i >= 0 && i < len(run.overrides) {
		for _, o := range run.overrides[i] {
			if found != noRule && run.find(o.rule) == found {
				return o.level
			}
		}
	}
	if found.level != "" {
		return found.level
	}
	return levelWarning
}

// messageOf is the text of a message, with its arguments in their places.
func (run *run) messageOf(message finding.Object, found *rule) string {
	text := jsondoc.Text(message, "text")
	if id := jsondoc.Text(message, "id"); text == "" && id != "" {
		text = found.messages[id]
		for i := range run.components {
			if text == "" {
				text = run.components[i].messages[id]
			}
		}
	}
	if text == "" {
		text = jsondoc.Text(message, "markdown")
	}
	list, _ := jsondoc.Member(message, "arguments").([]any)
	if len(list) == 0 {
		return text
	}
	return substitute(text, list)
}

// maxMessage bounds what arguments can make of a text.
const maxMessage = 64 << 10

// substitute replaces {0}, {1} … ; "{{" and "}}" stand for braces.
func substitute(text string, arguments []any) string {
	var b strings.Builder
	for text != "" && b.Len() < maxMessage {
		brace := strings.IndexAny(text, "{}")
		if brace < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:brace])
		rest := text[brace:]
		switch n, length := placeholder(rest); {
		case strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}"):
			b.WriteByte(rest[0])
			text = rest[2:]
		case length > 0 && n < len(arguments):
			b.WriteString(cut(finding.ToString(arguments[n])))
			text = rest[length:]
		default:
			b.WriteByte(rest[0])
			text = rest[1:]
		}
	}
	return b.String()
}

// placeholder reads "{12}". The length is 0 if the text does not begin with one.
func placeholder(text string) (number, length int) {
	const digits = 4
	i := 1
	for i < len(text) && i <= digits && text[i] >= '0' && text[i] <= '9' {
		number = number*10 + int(text[i]-'0')
		i++
	}
	if text[0] != '{' || i == 1 || i >= len(text) || text[i] != '}' {
		return 0, 0
	}
	return number, i + 1
}

// uriOf is the file of an artifactLocation, as the tool writes it, or as it lists it among the run's artifacts.
func (run *run) uriOf(location finding.Object) (string, error) {
	if uri := jsondoc.Text(location, "uri"); uri != "" {
		return uri, nil
	}
	i := indexAt(location, "index")
	switch {
	case i < 0:
		return "", nil
	case run.lost:
		return "", fmt.Errorf("%w: it names its file by index %d only, and the artifacts take more than is kept of them", errTooLarge, i)
	case i >= len(run.artifacts):
		return "", nil
	}
	return run.artifacts[i], nil
}
