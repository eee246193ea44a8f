// SPDX-License-Identifier: Apache-2.0

package whatweb

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// plugins are what the plugins of a target say, by name.
type plugins finding.Object

func pluginsOf(target finding.Object) plugins {
	v, _ := target.Get("plugins")
	entries, _ := ecma.Entries(v)
	return plugins(entries)
}

// describe adds what the plugins say to description and attributes.
func (p plugins) describe(f *finding.Finding) error {
	var ip, country any
	var html5 finding.Object
	var rest plugins
	for _, m := range p {
		var err error
		switch m.Key {
		case "IP":
			ip, _, err = said(m.Value, "string")
		case "Title":
			err = setDescription(f, m.Value)
		case "HTML5":
			html5 = finding.Object{{Key: m.Key, Value: true}}
		case "Country":
			country, err = countryOf(m.Value)
		default:
			rest = append(rest, m)
		}
		if err != nil {
			return fmt.Errorf("plugin %q %w", m.Key, err)
		}
	}
	f.Attributes = append(f.Attributes,
		finding.Member{Key: "ip_addresses", Value: []any{ip}},
		finding.Member{Key: "country", Value: country})
	f.Attributes = append(f.Attributes, html5...)
	return rest.summarize(f)
}

// summarize adds what is not there yet. Names are different, so that only the first attributes can be in the way.
func (p plugins) summarize(f *finding.Finding) error {
	fixed := len(f.Attributes)
	for _, m := range p {
		place := slices.IndexFunc(f.Attributes[:fixed], func(a finding.Member) bool { return a.Key == m.Key })
		if place >= 0 && ecma.Truthy(f.Attributes[place].Value) {
			continue
		}
		text, err := summary(m.Value)
		if err != nil {
			return fmt.Errorf("plugin %q %w", m.Key, err)
		}
		if place >= 0 {
			f.Attributes[place].Value = text
			continue
		}
		f.Attributes = append(f.Attributes, finding.Member{Key: m.Key, Value: text})
	}
	return nil
}

func setDescription(f *finding.Finding, plugin any) error {
	title, ok, err := said(plugin, "string")
	if err != nil {
		return err
	}
	said := finding.Object{}
	if ok {
		said.Set("title", title)
	}
	f.Description = finding.Text{}
	ecma.SetText(f, &f.Description, "description", said, "title")
	return nil
}

func countryOf(plugin any) (any, error) {
	name, err := composed(plugin, "string")
	if err != nil {
		return nil, err
	}
	code, err := composed(plugin, "module")
	if err != nil {
		return nil, err
	}
	return name + "/" + code, nil
}

// summary is the first text and the first module, as far as the plugin has them.
func summary(plugin any) (string, error) {
	switch plugin.(type) {
	case finding.Object, []any:
	default:
		return "", errors.New("is not an object")
	}
	o, _ := plugin.(finding.Object)
	text, err := part(o, "string", "")
	if err != nil {
		return "", err
	}
	module, err := part(o, "module", "/")
	return text + module, err
}

// part is what a plugin says first under a key, behind a separator; nothing if it does not have the key.
func part(plugin finding.Object, key, before string) (string, error) {
	if _, ok := plugin.Get(key); !ok {
		return "", nil
	}
	first, err := composed(plugin, key)
	return before + first, err
}

// composed is what a plugin says first, as it looks inside a composed text.
func composed(plugin any, key string) (string, error) {
	v, ok, err := said(plugin, key)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "undefined", nil
	}
	return finding.ToString(v), nil
}

// said is the first of what a plugin says under a key: the element 0 of a list, the character 0 of a text. It may say
// nothing, but the key must be there.
func said(plugin any, key string) (v any, ok bool, err error) {
	o, _ := plugin.(finding.Object)
	list, _ := o.Get(key)
	switch list := list.(type) {
	case nil:
		return nil, false, fmt.Errorf("has no %s", key)
	case []any:
		if len(list) > 0 {
			return list[0], true, nil
		}
	case string:
		if list != "" {
			return ecma.Units(list[:min(len(list), utf8.UTFMax)])[0].String(), true, nil
		}
	case finding.Object:
		v, ok = list.Get("0")
		return v, ok, nil
	}
	return nil, false, nil
}

// hasKeys reports that a value has something that can be listed.
func hasKeys(v any) bool {
	switch v := v.(type) {
	case finding.Object:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case string:
		return v != ""
	}
	return false
}
