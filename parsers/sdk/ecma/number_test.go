// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct{ wantInt, wantFloat float64 }{
		"":                   {nan, nan},
		"80":                 {80, 80},
		"80x":                {80, 80},
		"x":                  {nan, nan},
		"1e3":                {1, 1000},
		"0x10":               {0, 0},
		" \t\n\u00a0\ufeff7": {7, 7},
		"\u00857":            {nan, nan},
		"-12":                {-12, -12},
		"+12":                {12, 12},
		"-":                  {nan, nan},
		"--1":                {nan, nan},
		"2:1:0":              {2, 2},
		"2.10":               {2, 2.1},
		"3.11":               {3, 3.11},
		".5":                 {nan, 0.5},
		"5.":                 {5, 5},
		".":                  {nan, nan},
		"-.5e1x":             {nan, -5},
		"1e":                 {1, 1},
		"1e+":                {1, 1},
		"1e-2":               {1, 0.01},
		"Infinity!":          {nan, math.Inf(1)},
		"-Infinity":          {nan, math.Inf(-1)},
		"inf":                {nan, nan},
		"1_000":              {1, 1},
		"9007199254740993":   {9007199254740992, 9007199254740992},
		"1e999":              {1, math.Inf(1)},
		"2.10 (dangerous)":   {2, 2.1},
		"NT LM 0.12 (SMBv1)": {nan, nan},
	}
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	for in, tt := range tests {
		if got := ParseInt(in); !same(got, tt.wantInt) {
			t.Errorf("ParseInt(%q): want %v, got %v", in, tt.wantInt, got)
		}
		if got := ParseFloat(in); !same(got, tt.wantFloat) {
			t.Errorf("ParseFloat(%q): want %v, got %v", in, tt.wantFloat, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for want, f := range map[string]string{"80": "80", "2.1": "2.10", "NaN": "", "1e+21": "1e21", "Infinity": "Infinity"} {
		if got := Number(ParseFloat(f)); got != want {
			t.Errorf("%s: want %s, got %s", f, want, got)
		}
	}
}
