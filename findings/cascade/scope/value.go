// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/render"
)

// marker separates the elements of a list while it is a text. A finding that has it in a text makes a list as
// well.
const marker = ";;;;"

// value is one of values, with its aliases in place.
type value struct{ template *render.Mustache }

func newValue(text string, aliases finding.Object) (value, error) {
	mapped, err := render.RenderMustache(text, finding.Object{{Key: "$", Value: aliases}})
	if err != nil {
		return value{}, fmt.Errorf("template %q: %w", text, err)
	}
	if mapped == "" {
		mapped = text
	}
	template, err := render.ParseMustache(mapped)
	if err != nil {
		return value{}, fmt.Errorf("template %q: %w", mapped, err)
	}
	return value{template}, nil
}

// render makes one text of a finding, or the elements of a list.
func (v value) render(view finding.Object) ([]string, error) {
	text, err := v.template.Render(view)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(text, marker) {
		return []string{text}, nil
	}
	elements := strings.Split(text, marker)
	return elements[:len(elements)-1], nil // the marker is behind each element
}

// sections are the functions that values may use.
var sections = finding.Object{
	{Key: "asList", Value: render.Lambda(asList)},
	{Key: "getValues", Value: render.Lambda(getValues)},
	{Key: "split", Value: render.Lambda(split)},
}

// asList takes the elements of a list.
func asList(text string, render func(string) (string, error)) (string, error) {
	path := strings.TrimSpace(text)
	if strings.Count(path, ".") < 1 {
		return "", fmt.Errorf("asList: the path %q needs at least 2 levels, as in attributes.addresses", path)
	}
	return render("{{#" + path + "}}{{.}}" + marker + "{{/" + path + "}}")
}

// getValues takes one key of each object in a list.
func getValues(text string, render func(string) (string, error)) (string, error) {
	path := strings.TrimSpace(text)
	if strings.Count(path, ".") < 2 {
		return "", fmt.Errorf("getValues: the path %q needs at least 3 levels, as in attributes.addresses.ip", path)
	}
	at := strings.LastIndexByte(path, '.')
	list, key := path[:at], path[at+1:]
	return render("{{#" + list + "}}{{" + key + "}}" + marker + "{{/" + list + "}}")
}

var commas = strings.NewReplacer(", ", marker, ",", marker)

// split takes the parts of a text between commas.
func split(text string, render func(string) (string, error)) (string, error) {
	rendered, err := render(text)
	if err != nil {
		return "", err
	}
	rendered = commas.Replace(strings.TrimSpace(rendered))
	if rendered == "" || strings.HasSuffix(rendered, marker) {
		return rendered, nil
	}
	return rendered + marker, nil
}
