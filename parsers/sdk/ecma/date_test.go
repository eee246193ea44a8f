// SPDX-License-Identifier: Apache-2.0

package ecma_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// TestDate holds Date to a table of values and what Node 20 makes of them with TZ=UTC, null where it throws.
func TestDate(t *testing.T) {
	data, err := os.ReadFile("testdata/dates.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := finding.DecodeValue(data, 0)
	if err != nil {
		t.Fatal(err)
	}
	cases, _ := table.([]any)
	if len(cases) < 200 {
		t.Fatalf("the table has %d cases", len(cases))
	}
	for _, c := range cases {
		pair, _ := c.([]any)
		want, ok := pair[1].(string)
		t.Run(fmt.Sprintf("%q", pair[0]), func(t *testing.T) {
			if got, gotOK := ecma.Date(pair[0]); got != want || gotOK != ok {
				t.Errorf("want %q, %v, got %q, %v", want, ok, got, gotOK)
			}
		})
	}
}

// FuzzDate asks that what comes out is a time of the only form that there is, and stays the same if read again.
func FuzzDate(f *testing.F) {
	for _, seed := range []string{"", "2020-01-02T03:04:05.678Z", "Wed, 01 Jan 2020 10:00 PM EST (x)", "+275760-09-13", "1:2.3+4:5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		iso, ok := ecma.Date(s)
		if !ok {
			return
		}
		if again, ok := ecma.Date(iso); !ok || again != iso {
			t.Errorf("%q is %q, and that is %q", s, iso, again)
		}
		if _, err := time.Parse(time.RFC3339, iso); err != nil && len(iso) == len(finding.TimeFormat) {
			t.Error(err)
		}
	})
}

func BenchmarkDate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ecma.Date("2025-09-04T14:07:30.272358+02:00")
	}
}
