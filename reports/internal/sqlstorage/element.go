// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"slices"
	"strings"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

// Elements returns the JSON of some elements of a list in a stored object, by their places from 0, which must be in order.
// payload is the path of the member that is kept apart, list that of the list, which is the payload or lies inside of it.
// Places behind the end of the list are left out, as are all where there is no list.
func Elements(value *mvcc.Value, payload, list string, places []int) map[int][]byte {
	data, path := value.Head, list
	if value.Payload != nil {
		data, path = value.Payload, strings.TrimPrefix(strings.TrimPrefix(list, payload), ".")
	}
	at, ok := memberAt(data, path)
	if !ok || at >= len(data) || data[at] != '[' {
		return nil
	}
	found := make(map[int][]byte, len(places))
	at = skipSpace(data, at+1)
	for i := 0; at < len(data) && data[at] != ']' && len(found) < len(places); i++ {
		if data[at] == ',' {
			at = skipSpace(data, at+1)
		}
		end, err := skipValue(data, at)
		if err != nil {
			return found
		}
		if places[len(found)] == i {
			found[i] = data[at:end]
		}
		at = skipSpace(data, end)
	}
	return found
}

// memberAt returns where the value of the member at a path begins; that of the empty path is the whole.
func memberAt(data []byte, path string) (int, bool) {
	at := skipSpace(data, 0)
	if path == "" {
		return at, true
	}
	for name := range strings.SplitSeq(path, ".") {
		found, _, err := members(data, at)
		if err != nil {
			return 0, false
		}
		i := slices.IndexFunc(found, func(m member) bool { return string(data[m.keyStart+1:m.keyEnd-1]) == name })
		if i < 0 {
			return 0, false
		}
		at = found[i].valueStart
	}
	return at, true
}
