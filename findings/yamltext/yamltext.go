// SPDX-License-Identifier: Apache-2.0

// Package yamltext writes JSON as YAML. What reads JSON as if it were YAML, as other libraries do, refuses control
// characters and changes line separators, which findings have; here everything comes back as it was.
package yamltext

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v2"
)

// Of returns a JSON value as YAML, with sorted keys.
func Of(value []byte) ([]byte, error) {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return marshal(v)
}

// Item returns a JSON value as one item of a YAML list.
func Item(value []byte) ([]byte, error) {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return marshal([]any{v})
}

func marshal(v any) ([]byte, error) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return text, nil
}
