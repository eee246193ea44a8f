// SPDX-License-Identifier: Apache-2.0

// Package hostile gives parsers what no scanner means to write, and asks for an error that says so, in little memory.
package hostile

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

// Case is one report and the error wanted of it.
type Case struct {
	// Start is the report, or its beginning.
	Start string
	// Endless follows Start again and again, far beyond all limits.
	Endless string
	// Want is part of the error.
	Want string
	// End follows what is endless.
	End string
}

const (
	plenty = 32 << 20
	// allocated is what a parser may allocate altogether: some times the largest element.
	allocated = 192 << 20
)

func (c Case) open() io.Reader {
	if c.Endless == "" {
		return strings.NewReader(c.Start)
	}
	repeats := int64(plenty / len(c.Endless))
	return io.MultiReader(strings.NewReader(c.Start),
		io.LimitReader(rawgen.Endless(c.Endless), repeats*int64(len(c.Endless))), strings.NewReader(c.End))
}

// Run holds a parser to a table of cases.
func Run(t *testing.T, p sdk.Parser, cases map[string]Case) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sdktest.Count(t, p, sdktest.Case{Open: c.open})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.Want) {
				t.Errorf("want %q, got %v", c.Want, err)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > allocated {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

// JSON holds a parser of JSON documents to what goes wrong with any of them. Element is the beginning of a report up
// to the place where the first of many elements begins, and end what completes it behind one.
func JSON(t *testing.T, p sdk.Parser, element, end string) {
	t.Helper()
	Run(t, p, map[string]Case{
		"Empty":          {Want: "is nothing, must be an"},
		"Spaces":         {Start: " \n", Want: "the input ends too early"},
		"HTML":           {Start: "<!DOCTYPE html><title>502</title>", Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":         {Start: "\x1f\x8b\x08\x00", Want: "the input is not JSON"},
		"Text":           {Start: `"hello"`, Want: "is a string, must be an"},
		"Truncated":      {Start: element, Want: "the input ends too early"},
		"InAnElement":    {Start: element + `{"a"`, Want: "the input ends too early"},
		"Syntax":         {Start: element + `{"a":b` + "}" + end, Want: "invalid character 'b'"},
		"EndlessText":    {Start: element + `{"a":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessElement": {Start: element + `{"a":[1`, Endless: ",1", End: "]}" + end, Want: "too large: more than 16777216 bytes"},
		"DeeplyNested":   {Start: element, Endless: "[", Want: "max depth"},
		"EndlessSpace":   {Endless: " ", Want: "too large"},
		"NullElement":    {Start: element + "null" + end, Want: "is not an object"},
		"TextElement":    {Start: element + `"x"` + end, Want: "is not an object"},
		"Trailing":       {Start: element + end + " {}", Want: "data after the end"},
	})
}
