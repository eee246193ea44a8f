// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSplitAndJoin(t *testing.T) {
	for name, text := range map[string]string{
		"Small":      "a",
		"Variables":  "$(HOME) $$(HOME) ${HOME} $ $",
		"Large":      strings.Repeat("x", 3*maxPart),
		"Characters": "x" + strings.Repeat("€", maxPart/2),
	} {
		t.Run(name, func(t *testing.T) {
			scan := map[string]any{"spec": map[string]any{"parameters": []any{text}}}
			raw, err := json.Marshal(scan)
			if err != nil {
				t.Fatal(err)
			}
			variables, err := Split(raw)
			if err != nil {
				t.Fatal(err)
			}
			env := map[string]string{}
			for _, v := range variables {
				if len(v.Name)+len(v.Value) >= 128<<10 || !utf8.ValidString(v.Value) || strings.Contains(v.Value, "$") || !IsVariable(v.Name) {
					t.Errorf("variable %s of %d bytes is not fit for a pod", v.Name, len(v.Value))
				}
				env[v.Name] = v.Value
			}
			var got map[string]any
			if err := json.Unmarshal(Join(func(name string) string { return env[name] }), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, scan) {
				t.Error("the Scan has changed on its way")
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := Split([]byte(strings.Repeat("x", MaxScan))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestJoinWithoutVariables(t *testing.T) {
	if scan := Join(func(string) string { return "" }); scan != nil {
		t.Errorf("got %q", scan)
	}
}
