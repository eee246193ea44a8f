// SPDX-License-Identifier: Apache-2.0

package sshaudit

import (
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"TwoGiBOfText":      {Start: `{"banner":{"raw":"`, Endless: "a", Want: "element too large: more than 16777216 bytes"},
		"EndlessAlgorithms": {Start: `{"kex":[1`, Endless: ",1", Want: "element too large"},
		"DeeplyNested":      {Start: `{"kex":`, Endless: `[`, Want: "exceeded max depth"},
		"HTML":              {Start: `<html></html>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":            {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":         {Start: `{"target":"h","kex":[`, Want: "the input ends too early"},
		"SyntaxInside":      {Start: `{"target":b}`, Want: "at /target: invalid character 'b'"},
		"BadTarget":         {Start: `{"target":22}`, Want: "target is not a string"},
		"NoRecommendations": {Start: `{"target":"h"}`, Want: "recommendations: are missing or null"},
		"UnknownLevel": {
			Start: `{"target":"h","recommendations":{"fatal":{"del":{"kex":[]}}}}`,
			Want:  `recommendations of level "fatal", action "del": ssh-audit does not give such advice`,
		},
		"NullAlgorithm": {
			Start: `{"target":"h","recommendations":{"warning":{"add":{"kex":[{"name":"a"},null]}}}}`,
			Want:  `action "add": "kex": algorithm 1: its values are missing or null`,
		},
		"AfterTheReport": {Start: `{"target":"h","recommendations":{}}[]`, Want: "data after the end"},
		"AfterTheArray":  {Start: `[][]`, Want: "data after the end"},
	})
}

func TestIsAddress(t *testing.T) {
	for _, s := range []string{"1.2.3.4", "10.00.09.0", "199.249.255.100", "192.168.1.1"} {
		if !isAddress(s) {
			t.Errorf("%q is not an address", s)
		}
	}
	for _, s := range []string{
		"", ".", "...", "0.1.2.3", "01.2.3.4", "1.2.3", "1.2.3.4.", ".1.2.3.4", "1..2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.300",
		"1.2.3.012", "1.2.3.0100", "1.2.3.a", "1.2.3.+4", "1.2.3.-4", "1.2.3. 4", "1.2.3.4\n", "1.2.3.\u0664", "a.b.c.d",
	} {
		if isAddress(s) {
			t.Errorf("%q is an address", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"target":"1.2.3.4:22","recommendations":{"critical":{"del":{"kex":[{"name":"a","notes":""},["b"],"c\ud800"]}}}}`,
		`{"target":"h:","recommendations":{"informational":{"add":{"enc":{"a":{}}}}},"banner":{"raw":7}}`, `{"target":"h","recommendations":[[]]}`, `{"target":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}
