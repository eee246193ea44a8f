// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Set puts value at the path into one JSON document and returns the new one. Only what lies on the path is replaced;
// everything else keeps its bytes, so numbers, unknown members and their order survive. Objects and lists missing on
// the way are made; null and scalars on the way are replaced. A document that is neither object nor list has no fields
// and comes back unchanged. Both document and value must be valid JSON.
func (p Path) Set(document, value json.RawMessage) (json.RawMessage, error) {
	switch kindOf(document) {
	case '{':
		_, hasText := findMember(document, p.text)
		return setMember(document, p.keys(hasText), value)
	case '[':
		return set(document, p.keys(false), value)
	default:
		return document, nil
	}
}

// set walks one level down. The container is an object or a list.
func set(container json.RawMessage, keys []string, value json.RawMessage) (json.RawMessage, error) {
	if kindOf(container) == '[' {
		return setElement(container, keys, value)
	}
	return setMember(container, keys, value)
}

func setMember(object json.RawMessage, keys []string, value json.RawMessage) (json.RawMessage, error) {
	if len(keys) == 0 || isReserved(keys[0]) {
		return object, nil
	}
	at, found := findMember(object, keys[0])
	changed, err := descend(object[at.start:at.end], keys, value)
	if err != nil {
		return nil, err
	}
	if found {
		return splice(object, at, changed), nil
	}
	name, err := encodeText(keys[0])
	if err != nil {
		return nil, err
	}
	return splice(object, at, at.separator(), name, []byte(":"), changed), nil
}

func setElement(list json.RawMessage, keys []string, value json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(keys) == 0:
		return list, nil
	case keys[0] == "length":
		return nil, errors.New("the length of a list cannot be set")
	case !isIndex(keys[0]):
		// A list has no members other than its elements: what a path would put there is lost in JSON.
		return list, nil
	}
	wanted, err := index(keys[0])
	if err != nil {
		return nil, err
	}
	at, missing := findElement(list, wanted)
	changed, err := descend(list[at.start:at.end], keys, value)
	if err != nil {
		return nil, err
	}
	if missing < 0 {
		return splice(list, at, changed), nil
	}
	return splice(list, at, at.separator(), bytes.Repeat([]byte("null,"), missing), changed), nil
}

// descend computes what the place named by keys[0] holds afterwards. Nothing is present where there is no such place.
func descend(present json.RawMessage, keys []string, value json.RawMessage) (json.RawMessage, error) {
	if len(keys) == 1 {
		return value, nil
	}
	if kind := kindOf(present); kind != '{' && kind != '[' {
		present = json.RawMessage("{}")
		if isIndex(keys[1]) {
			present = json.RawMessage("[]")
		}
	}
	return set(present, keys[1:], value)
}

// isReserved names keys at which the walk stops and leaves things as they are: in the JavaScript hook that users come
// from they would have reached into the language itself.
func isReserved(key string) bool {
	return key == "__proto__" || key == "constructor" || key == "prototype"
}

// encodeText writes a JSON string without the escapes meant for HTML pages.
func encodeText(text string) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return nil, fmt.Errorf("encode text: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
