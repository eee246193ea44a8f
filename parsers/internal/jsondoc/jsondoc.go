// SPDX-License-Identifier: Apache-2.0

package jsondoc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Elements walks an array of objects, each decoded whole. Errors of visit say which one it was: "match 3: …". Where
// null stands in place of the array there are none.
func Elements(ctx context.Context, r *jsonstream.Reader, what string, visit func(o finding.Object) error) error {
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	if kind == jsonstream.Null {
		return r.Skip()
	}
	return r.Array(func(i int) error {
		v, err := r.Value()
		if err != nil {
			return err
		}
		o, ok := v.(finding.Object)
		if !ok {
			return fmt.Errorf("%s %d: is not an object", what, i)
		}
		if err := visit(o); err != nil {
			return fmt.Errorf("%s %d: %w", what, i, err)
		}
		return ctx.Err()
	})
}

// Member returns what is at a path of keys, nil if there is nothing.
func Member(o finding.Object, path ...string) any {
	var v any = o
	for _, key := range path {
		inner, ok := v.(finding.Object)
		if !ok {
			return nil
		}
		v, _ = inner.Get(key)
	}
	return v
}

// Text returns the text at a path, "" if there is none.
func Text(o finding.Object, path ...string) string {
	s, _ := Member(o, path...).(string)
	return s
}

// Need returns the text at a path, and an error if there is none or if it is empty.
func Need(o finding.Object, path ...string) (string, error) {
	v := Member(o, path...)
	if s, ok := v.(string); ok && s != "" {
		return s, nil
	}
	if v == nil || v == "" {
		return "", errors.New("has no " + strings.Join(path, "."))
	}
	return "", errors.New(strings.Join(path, ".") + " is not a text")
}

// Number returns the number at a path and whether there is one.
func Number(o finding.Object, path ...string) (float64, bool) {
	f, ok := Member(o, path...).(float64)
	return f, ok
}

// Bool returns the boolean at a path, false if there is none.
func Bool(o finding.Object, path ...string) bool {
	b, _ := Member(o, path...).(bool)
	return b
}

// Object returns the object at a path, nil if there is none.
func Object(o finding.Object, path ...string) finding.Object {
	inner, _ := Member(o, path...).(finding.Object)
	return inner
}

// Objects returns the objects in the list at a path.
func Objects(o finding.Object, path ...string) []finding.Object {
	list, _ := Member(o, path...).([]any)
	return only[finding.Object](list)
}

// Texts returns the texts in the list at a path, without empty ones.
func Texts(o finding.Object, path ...string) []string {
	list, _ := Member(o, path...).([]any)
	var texts []string
	for _, s := range only[string](list) {
		if s != "" {
			texts = append(texts, s)
		}
	}
	return texts
}

func only[T any](list []any) []T {
	var kept []T
	for _, v := range list {
		if t, ok := v.(T); ok {
			kept = append(kept, t)
		}
	}
	return kept
}

// Set adds an attribute, unless the value says nothing: nil, "", an empty list or object.
func Set(attributes *finding.Object, key string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case string:
		if v == "" {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	case finding.Object:
		if len(v) == 0 {
			return
		}
	}
	*attributes = append(*attributes, finding.Member{Key: key, Value: value})
}

// SetNumber adds the number at a path as an attribute, if there is one.
func SetNumber(attributes *finding.Object, key string, o finding.Object, path ...string) {
	if f, ok := Number(o, path...); ok {
		Set(attributes, key, f)
	}
}
