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
		return text{}, fmt.Errorf("is no text")
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
