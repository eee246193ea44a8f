// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Data decodes JSON for Go templates: whole numbers are int64, so that a port compares with 443 and prints as it was
// written, and others float64.
func Data(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: there is more than one value")
	}
	return numbered(v), nil
}

func numbered(v any) any {
	switch v := v.(type) {
	case json.Number:
		if whole, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return whole
		}
		if number, err := v.Float64(); err == nil {
			return number
		}
		return string(v) // beyond what a number holds
	case map[string]any:
		for key, member := range v {
			v[key] = numbered(member)
		}
	case []any:
		for i, element := range v {
			v[i] = numbered(element)
		}
	}
	return v
}
