// SPDX-License-Identifier: Apache-2.0

package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// ToJSON makes JSON of one YAML document as js-yaml reads it: yes and on are texts.
func ToJSON(text string) ([]byte, error) {
	if json.Valid([]byte(text)) {
		return []byte(text), nil
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var value any
	if err := decoder.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read YAML: %w", withoutQuote(err))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("read YAML: there is more than one document")
	}
	encoded, err := json.Marshal(plain(value))
	if err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	return encoded, nil
}

// withoutQuote keeps the line and drops the line breaks of the library's errors.
func withoutQuote(err error) error {
	return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
}

// plain turns what only YAML has into what JSON has: keys that are not texts, times.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = plain(member)
		}
	case map[any]any:
		object := make(map[string]any, len(v))
		for key, member := range v {
			object[fmt.Sprint(key)] = plain(member)
		}
		return object
	case []any:
		for i, element := range v {
			v[i] = plain(element)
		}
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return value
}
