// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

func TestElements(t *testing.T) {
	list := ` [ {"a":"]"} , "b,\"" ,[1,2], 4 ]`
	for name, test := range map[string]struct {
		value         mvcc.Value
		payload, path string
		places        []int
		want          map[int][]byte
	}{
		"PayloadIsTheList":      {mvcc.Value{Head: []byte(`{}`), Payload: []byte(list)}, "results", "results", []int{0, 2}, map[int][]byte{0: []byte(`{"a":"]"}`), 2: []byte(`[1,2]`)}},
		"ListInThePayload":      {mvcc.Value{Head: []byte(`{}`), Payload: []byte(`{"x":[9],"findings":` + list + `}`)}, "document", "document.findings", []int{1}, map[int][]byte{1: []byte(`"b,\""`)}},
		"WithoutAPayload":       {mvcc.Value{Head: []byte(`{"metadata":{},"results":` + list + `}`)}, "results", "results", []int{3}, map[int][]byte{3: []byte(`4`)}},
		"DeepWithoutAPayload":   {mvcc.Value{Head: []byte(`{"document":{"findings":` + list + `}}`)}, "document", "document.findings", []int{3}, map[int][]byte{3: []byte(`4`)}},
		"BehindTheEnd":          {mvcc.Value{Payload: []byte(list)}, "results", "results", []int{3, 4, 9}, map[int][]byte{3: []byte(`4`)}},
		"EmptyList":             {mvcc.Value{Payload: []byte(`[]`)}, "results", "results", []int{0}, map[int][]byte{}},
		"NoList":                {mvcc.Value{Head: []byte(`{"results":{"a":1}}`)}, "results", "results", []int{0}, nil},
		"NoMember":              {mvcc.Value{Head: []byte(`{"metadata":{}}`)}, "results", "results", []int{0}, nil},
		"DamagedBehindTheFirst": {mvcc.Value{Payload: []byte(`[1,"`)}, "results", "results", []int{0, 1}, map[int][]byte{0: []byte(`1`)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Elements(&test.value, test.payload, test.path, test.places)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
