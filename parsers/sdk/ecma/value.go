// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"math"

	"github.com/scanyard/scanyard/apis/finding"
)

// Truthy is Boolean(v) of a decoded value: false for null, false, 0, NaN and "". A missing value is passed as nil.
func Truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0 && !math.IsNaN(v)
	}
	return true
}

// OrNull is v || null of a member: its value, or null where that is missing or falsy.
func OrNull(o finding.Object, key string) any {
	if v, _ := o.Get(key); Truthy(v) {
		return v
	}
	return nil
}

// Property is String(o[key]): how a member looks inside a composed text, "undefined" where it is missing.
func Property(o finding.Object, key string) string {
	v, ok := o.Get(key)
	if !ok {
		return "undefined"
	}
	return finding.ToString(v)
}

// Copy appends the member from of source to target under the name to; a missing one is left out, as JSON.stringify
// leaves out undefined.
func Copy(target *finding.Object, to string, source finding.Object, from string) {
	if v, ok := source.Get(from); ok {
		*target = append(*target, finding.Member{Key: to, Value: v})
	}
}

// SetText gives a field of a finding the value of a member, whatever its type. A finding's texts can hold strings and
// null; anything else goes to Extra under the field's name, for the schema to refuse.
func SetText(f *finding.Finding, field *finding.Text, name string, source finding.Object, key string) {
	v, ok := source.Get(key)
	if !ok {
		return
	}
	if *field = source.Text(key); field.IsAbsent() {
		f.Extra.Set(name, v)
	}
}
