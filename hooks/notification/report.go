// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// entry is what a reporter tells: a finding, or that a Scan is Errored.
type entry struct {
	// key names it in the same way in every run of the hook and of the scanner.
	key         string
	title, text string // text is Markdown
	severity    string
	state       compare.State
	failure     bool
	element     []byte
	finding     finding.Object
	decoded     any // for templates
}

// newEntry makes the default words for a finding.
func (t *task) newEntry(element []byte, state compare.State) (*entry, error) {
	value, err := finding.DecodeValue(element, 0)
	if err != nil {
		return nil, err
	}
	e := &entry{element: element, state: state}
	e.finding, _ = value.(finding.Object)
	mark, err := t.keyOf(element)
	if err != nil {
		return nil, err
	}
	e.key = delivery.Key(t.scan.Metadata.Namespace, mark)
	if e.decoded, err = render.Data(element); err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	e.severity = strings.ToUpper(e.member("severity"))
	title := fmt.Sprintf("[%s] %s", cmp.Or(e.severity, "UNKNOWN"), cmp.Or(e.member("name"), "Finding without a name"))
	if location := e.member("location"); location != "" {
		title += " at " + location
	}
	e.title = cut(maxTitle, strings.Join(strings.Fields(title), " "))
	e.text = t.describe(e, fenced)
	return e, nil
}

const (
	// maxTitle is what the strictest tracker takes.
	maxTitle = 250
	// maxDescription keeps one text below what the strictest tracker takes for an issue.
	maxDescription = 8000
)

// describe is a text in which what comes from the scanner stands in fences, where nothing is a link, a picture or a
// mention.
func (t *task) describe(e *entry, fenced func(string) string) string {
	var facts, texts strings.Builder
	for _, fact := range []struct{ label, value string }{
		{"Severity", e.severity},
		{"Category", e.member("category")},
		{"Location", e.member("location")},
		{"Scan", t.scan.Metadata.Namespace + "/" + t.scan.Metadata.Name + " (" + t.scan.Spec.ScanType + ")"},
	} {
		if fact.value != "" {
			fmt.Fprintf(&facts, "%-9s %s\n", fact.label+":", strings.Join(strings.Fields(fact.value), " "))
		}
	}
	texts.WriteString(fenced(facts.String()))
	for _, part := range []struct{ heading, key string }{{"Description", "description"}, {"What to do", "mitigation"}} {
		if text := e.member(part.key); text != "" {
			texts.WriteString("\n" + part.heading + ":\n\n" + fenced(cut(maxDescription, text)))
		}
	}
	return texts.String()
}

// fenced puts a text into a fence that the text cannot end.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}

// cut keeps the beginning of a text.
func cut(length int, text string) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}

// member is the text of a finding's field; nothing for nothing.
func (e *entry) member(key string) string {
	value, _ := e.finding.Get(key)
	return plainText(value)
}

// attribute is the text of one of the finding's attributes, if it has it.
func (e *entry) attribute(key string) (string, bool) {
	value, ok := child(e.finding, "attributes").Get(key)
	return plainText(value), ok
}

// reportAll reports the findings one by one. One that is refused does not keep the others back.
func (t *task) reportAll(ctx context.Context, l *selection, s *selected) error {
	if s.count == 0 {
		return nil
	}
	current := t.oneByOne(l.stateOf)
	fixed := t.oneByOne(func([]byte) (compare.State, error) { return compare.Fixed, nil })
	most := s.count
	if t.MaxFindings > 0 && t.MaxFindings < s.count {
		most = t.MaxFindings
		t.session.Notef("channel %q: %d of %d findings are reported, as maxFindings says", t.Name, most, s.count)
	}
	reported := 0
	var sending error // about a finding before the one at hand
	err := l.each(ctx, t.wants(compare.Fixed), func(element []byte, value any, state compare.State) error {
		if reported == most || !t.hears(value, state) {
			return nil
		}
		reported++
		to := current
		if state == compare.Fixed {
			to = fixed
		}
		id, err := t.session.FindingID(element)
		if err != nil {
			return err
		}
		sending = to.Add(ctx, id, element)
		return sending
	})
	switch {
	case sending != nil:
		return sending
	case err != nil:
		return err
	}
	return errors.Join(current.Close(ctx), fixed.Close(ctx))
}

// oneByOne makes what reports a finding, and counts those that are refused.
func (t *task) oneByOne(state func(element []byte) (compare.State, error)) *delivery.Batcher {
	return t.client.NewBatcher(delivery.Limits{Count: 1}, func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
		found, err := state(b.Items[0].Data)
		if err != nil {
			return nil, err
		}
		e, err := t.newEntry(b.Items[0].Data, found)
		if err != nil {
			return nil, err
		}
		err = t.reporter.report(ctx, t, e)
		if refused, ok := errors.AsType[*delivery.StatusError](err); ok && isAboutOne(refused.Status) {
			return []delivery.Failure{{Err: refused}}, nil
		}
		return nil, err
	})
}

// isAboutOne says that a status is about what one request says, not about who says it or where to.
func isAboutOne(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// reportFailure tells that the Scan is Errored.
func (t *task) reportFailure(ctx context.Context) error {
	return t.reporter.report(ctx, t, t.scan.failure(t.session.Key("errored")))
}

// overridden lays what the channel's template says over what would be sent.
func (t *task) overridden(value map[string]any, e *entry) (map[string]any, error) {
	if t.override == nil || e.failure {
		return value, nil
	}
	text, err := t.override.renderEntry(t.scan, e)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return value, nil
	}
	over, err := object(text)
	if err != nil {
		return nil, err
	}
	return laidOver(value, over), nil
}

// laidOver merges objects key by key; all else is replaced.
func laidOver(value, over map[string]any) map[string]any {
	for key, member := range over {
		below, isObject := value[key].(map[string]any)
		above, ok := member.(map[string]any)
		if isObject && ok {
			member = laidOver(below, above)
		}
		value[key] = member
	}
	return value
}

// rawMessage is a finding as it stands, inside another document.
func (e *entry) rawMessage() json.RawMessage { return json.RawMessage(e.element) }
