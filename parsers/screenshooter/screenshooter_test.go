// SPDX-License-Identifier: Apache-2.0

package screenshooter

import (
	"testing"

	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "\x89PNG\r\n", "\ufeff", "\ufeff\xff", "{}"} {
		f.Add([]byte(seed), "https://example.com")
	}
	f.Fuzz(func(t *testing.T, raw []byte, parameter string) {
		sdktest.Fuzz(t, Parser(), raw)
		scan := &sdk.Scan{Spec: sdk.ScanSpec{Parameters: []string{parameter}}}
		if _, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: raw, Scan: scan}); err != nil {
			t.Error(err)
		}
	})
}
