// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/scanyard/scanyard/apis/finding"
)

// Text is the selector as the Kubernetes API takes it. The object is spec.cascades, or any other with matchLabels and
// matchExpressions.
func Text(cascades finding.Object) (string, error) {
	var terms []string
	if value, ok := cascades.Get("matchLabels"); ok && value != nil {
		matchLabels, ok := value.(finding.Object)
		if !ok {
			return "", fmt.Errorf("matchLabels is not an object")
		}
		for _, m := range matchLabels {
			terms = append(terms, m.Key+"="+finding.ToString(m.Value))
		}
	}
	if value, ok := cascades.Get("matchExpressions"); ok && value != nil {
		list, ok := value.([]any)
		if !ok {
			return "", fmt.Errorf("matchExpressions is not a list")
		}
		for i, entry := range list {
			term, err := expression(entry)
			if err != nil {
				return "", fmt.Errorf("matchExpressions[%d]: %w", i, err)
			}
			terms = append(terms, term)
		}
	}
	return strings.Join(terms, ","), nil
}

func expression(entry any) (string, error) {
	requirement, ok := entry.(finding.Object)
	if !ok {
		return "", fmt.Errorf("is not an object")
	}
	key, _ := requirement.Text("key").Get()
	if key == "" {
		return "", fmt.Errorf("has no key")
	}
	operator, _ := requirement.Text("operator").Get()
	switch operator {
	case "Exists":
		return key, nil
	case "DoesNotExist":
		return "!" + key, nil
	case "In", "NotIn":
		value, _ := requirement.Get("values")
		values, ok := value.([]any)
		if !ok {
			return "", fmt.Errorf("operator %s needs values", operator)
		}
		return key + " " + strings.ToLower(operator) + " (" + finding.ToString(values) + ")", nil
	}
	return "", fmt.Errorf("there is no operator %q; there are In, NotIn, Exists and DoesNotExist", operator)
}

// Selector selects rules by their labels.
type Selector struct{ labels labels.Selector }

// Parse reads the text of a selector.
func Parse(text string) (Selector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return Selector{}, fmt.Errorf("label selector %q: %w", text, err)
	}
	return Selector{parsed}, nil
}

// Selects says whether an object, such as a CascadingRule, is selected.
func (s Selector) Selects(object finding.Object) bool {
	set := labels.Set{}
	if metadata, ok := object.Get("metadata"); ok {
		if metadata, ok := metadata.(finding.Object); ok {
			if value, ok := metadata.Get("labels"); ok {
				if own, ok := value.(finding.Object); ok {
					for _, m := range own {
						set[m.Key] = finding.ToString(m.Value)
					}
				}
			}
		}
	}
	return s.labels.Matches(set)
}
