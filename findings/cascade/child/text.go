// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/render"
)

// text is a text of a rule. Without a template in it there is nothing to render.
type text struct {
	source   string
	template *render.Mustache
}

func newText(value any) (text, error) {
	source, ok := value.(string)
	if !ok {
		return text{}, fmt.Errorf("is not text")
	}
	if !strings.Contains(source, "{{") {
		return text{source: source}, nil
	}
	template, err := render.ParseMustache(source)
	if err != nil {
		return text{}, fmt.Errorf("template %q: %w", source, err)
	}
	return text{source: source, template: template}, nil
}

func (t text) render(view finding.Object) (string, error) {
	if t.template == nil {
		return t.source, nil
	}
	return t.template.Render(view)
}

// OptionError says that a parameter would be an option of the scanner that the finding has chosen.
type OptionError struct {
	// Parameter is its place, from 0.
	Parameter int
	// Template is what the rule has there.
	Template string
}

// Error names the parameter and the remedy.
func (e *OptionError) Error() string {
	return fmt.Sprintf(
		"parameters[%d]: %q would begin with '-', so the finding would choose an option of the scanner; write what it begins with into the rule, or "+
			"annotate the rule with %s: \"true\"",
		e.Parameter, e.Template, AnnotationOptions,
	)
}

// AnnotationOptions on a rule, with the value "true", lets findings choose options of the scanner.
const AnnotationOptions = "cascading.scanyard.io/allow-options"

// becomesOption reports whether a parameter begins with '-' though the rule does not begin so: the text begins with a
// template, and so with text of a scanned host. Text of the rule's own inside a section may.
func (t text) becomesOption(value string) bool {
	if value = strings.TrimSpace(value); t.template == nil || !strings.HasPrefix(value, "-") || !strings.HasPrefix(strings.TrimSpace(t.source), "{{") {
		return false
	}
	for rest := t.source; ; {
		_, after, found := strings.Cut(rest, "}}")
		if !found {
			return true
		}
		rest = after
		own, _, _ := strings.Cut(after, "{{")
		if own = strings.TrimSpace(own); len(own) > 1 && own[0] == '-' && strings.HasPrefix(value, own) {
			return false
		}
	}
}
