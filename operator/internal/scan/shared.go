// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// sharedMaps lets equal labels, and equal annotations, of cached objects be one map: Jobs that have ended have few different ones, and a map of its
// own takes 300 bytes of each. What is in the cache is never changed.
type sharedMaps struct {
	mu   sync.Mutex
	maps map[string]map[string]string
}

// mostShared bounds how many different maps are kept, for values that users choose, such as names of hooks.
const mostShared = 1000

// of returns a map that equals m.
func (s *sharedMaps) of(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var key strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		for _, text := range []string{k, m[k]} {
			key.WriteString(strconv.Itoa(len(text)) + ":" + text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.maps[key.String()]; ok {
		return shared
	}
	if s.maps == nil || len(s.maps) >= mostShared {
		s.maps = map[string]map[string]string{} // objects keep what they have
	}
	s.maps[key.String()] = m
	return m
}
