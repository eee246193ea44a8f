// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestPercentFor(t *testing.T) {
	cases := map[string]struct {
		live uint64
		want int
	}{
		"Nothing": {0, 2400}, "Few": {24 << 20, 100}, "Many": {80 << 20, 30}, "VeryMany": {1 << 30, 30},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := percentFor(tc.live); got != tc.want {
				t.Errorf("%d%%, want %d%%", got, tc.want)
			}
		})
	}
}
