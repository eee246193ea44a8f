// SPDX-License-Identifier: Apache-2.0

package subfinder

import (
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":  {Start: `{"host":"`, Endless: "a", Want: "line 1: element too large: more than 16777216 bytes"},
		"EndlessSpace": {Start: " ", Endless: " \r", Want: "line 1: element too large"},
		"EmptyLines":   {Start: "{}", Endless: "\n", End: "{}", Want: "line 2: is empty, must be a subdomain"},
		"XML":          {Start: "<nmaprun/>", Want: "line 1: invalid JSON at byte 0: '<' where a value was expected"},
		"Binary":       {Start: "\x1f\x8b\x08\x00", Want: "line 1: invalid JSON at byte 0"},
		"Truncated":    {Start: "{\"host\":\"a\"}\n{\"host\":\"b", Want: "line 2: invalid JSON at byte 10: it ends inside a string"},
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", " \n", "null", "{}\n\n", "\ufeff\u00a0{\"host\":\"a\",\"ip\":\"1.2.3.4\"}\u00a0\n\u2028", "{\"host\":null}\u00a0\n5", "[]\n\"x\"\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}
