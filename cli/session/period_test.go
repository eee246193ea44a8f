// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"
	"time"
)

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"14d": 14 * Day, "400d": 400 * Day, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute,
		"": 0, "0d": 0, "-1d": 0, "401d": 0, "99999999999999999999d": 0, "1.5d": 0, "9601h": 0, "-1h": 0, "0s": 0, "7": 0, "soon": 0,
	} {
		got, err := ParsePeriod(text, 400*Day)
		if got != want || (err == nil) != (want > 0) || err != nil && !strings.Contains(err.Error(), "400d") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
