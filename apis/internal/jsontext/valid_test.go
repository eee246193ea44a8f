// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/internal/jsontext"
)

// texts are JSON and what is almost JSON.
var texts = []string{
	"", " ", "{}", "[]", "{ }", "[ ]", "null", "true", "false", "nul", "truee", "nullx", "tru", "0", "-0", "01", "-", "1.", "1.5", ".5", "1e5", "1E+5", "1e-", "1e", "+1",
	"1 2", `""`, `"`, `"a`, `"\n"`, `"\x"`, `"\u12aF"`, `"\u12a"`, `"\u12ag"`, `"\`, "\"\n\"", "\"\x7f\"", "\"\xff\"", `"12345678"`, `"1234567\"89"`, `"12345678\\"`,
	"\"1234567\x1f\"", "\"12345678\x00\"", "\"12345678é\u2028\"", `{"a":1}`, `{"a":1,}`, `{"a":1,"b":[1,2,{"c":null}]}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1]`, `[1,2`, `[1,,2]`,
	`[1 2]`, "\t{\r\n\"a\" : [ true , false ] }\n", `{"a":"b"}x`, `{,}`, `[,]`, `[1}`, "\ufeff{}", `{"a":{"b":{"c":"d\u0000"}}}`, "\u00a01",
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), strings.Repeat("[", 20_000),
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		if got, want := jsontext.Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: got %t, want %t", text, got, want)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 { // texts with some bytes changed
		text := []byte(texts[random.IntN(len(texts)-3)])
		for range 1 + random.IntN(3) {
			if len(text) > 0 {
				text[random.IntN(len(text))] = `{}[]",:\u0aEe+-. `[random.IntN(17)]
			}
		}
		if got, want := jsontext.Valid(text), json.Valid(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := jsontext.Valid(text), json.Valid(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"image":"registry.example.com/team/app@sha256:` + strings.Repeat("0123456789abcdef", 4) + `","owner":{"kind":"ReplicaSet","name":"app-7"},"n":[1,2.5,true],"note":"` + strings.Repeat("words ", 60) + `"}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !jsontext.Valid(text) {
			b.Fatal("it is JSON")
		}
	}
}
