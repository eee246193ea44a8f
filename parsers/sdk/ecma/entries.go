// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"slices"
	"strconv"

	"github.com/scanyard/scanyard/apis/finding"
)

// Entries is Object.entries(v) of a decoded value: the members of an object, in ECMAScript's order, the elements of a
// list, the UTF-16 units of a text; numbers and booleans have none. ok is false for null, where ECMAScript throws.
func Entries(v any) (entries finding.Object, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, false
	case finding.Object:
		return inOrder(v), true
	case []any:
		for i, e := range v {
			entries = append(entries, finding.Member{Key: strconv.Itoa(i), Value: e})
		}
	case string:
		for i, unit := range Units(v) {
			entries = append(entries, finding.Member{Key: strconv.Itoa(i), Value: unit.String()})
		}
	}
	return entries, true
}

// Values is Object.values(v): the values of Entries.
func Values(v any) (values []any, ok bool) {
	entries, ok := Entries(v)
	for _, e := range entries {
		values = append(values, e.Value)
	}
	return values, ok
}

// inOrder puts the keys that are array indexes first, ascending. The others stay as they were written.
func inOrder(o finding.Object) finding.Object {
	isIndex := func(m finding.Member) bool { return arrayIndex(m.Key) >= 0 }
	if !slices.ContainsFunc(o, isIndex) {
		return o
	}
	o = slices.Clone(o)
	slices.SortStableFunc(o, func(a, b finding.Member) int {
		i, j := arrayIndex(a.Key), arrayIndex(b.Key)
		switch {
		case i < 0 && j < 0:
			return 0
		case i < 0:
			return 1
		case j < 0 || i < j:
			return -1
		case i > j:
			return 1
		}
		return 0
	})
	return o
}

// arrayIndex returns the number that a key is the plain text of, from 0 to 4294967294, or -1.
func arrayIndex(key string) int64 {
	const last = 1<<32 - 2
	if key == "" || len(key) > len("4294967294") || key[0] == '0' && key != "0" {
		return -1
	}
	n := int64(0)
	for _, c := range []byte(key) {
		if !isDigit(c) {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	if n > last {
		return -1
	}
	return n
}
