// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"maps"
	"reflect"
	"strconv"
	"testing"
)

func TestSharedMaps(t *testing.T) {
	var s sharedMaps
	one := s.of(map[string]string{"a": "1", "b": "2"})
	same := func(m map[string]string) bool { return reflect.ValueOf(m).Pointer() == reflect.ValueOf(one).Pointer() }
	if !same(s.of(map[string]string{"b": "2", "a": "1"})) {
		t.Error("equal maps are two")
	}
	for name, other := range map[string]map[string]string{"Value": {"a": "1", "b": "3"}, "Key": {"a": "1", "c": "2"}, "Fewer": {"a": "1"}, "Border": {"a": "11:b1:2"}} {
		if got := s.of(maps.Clone(other)); same(got) || !maps.Equal(got, other) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.of(map[string]string{}) != nil || s.of(nil) != nil {
		t.Error("an empty map is kept")
	}
	for i := range 3 * mostShared {
		s.of(map[string]string{"a": strconv.Itoa(i)})
	}
	if len(s.maps) > mostShared {
		t.Errorf("%d maps are kept", len(s.maps))
	}
}
