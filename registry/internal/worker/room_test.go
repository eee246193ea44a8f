// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRoom is the half of F29 about a disk that is nearly full: no SBOM is asked for where less than this is left.
func TestRoom(t *testing.T) {
	for size, want := range map[string]int64{"100Mi": 10 << 20, "20Gi": 2 << 30, "1Ti": 2 << 30} {
		quantity := resource.MustParse(size)
		if got := leastFree(quantity.Value()); got != want {
			t.Errorf("of a cache of %s %d bytes are kept free, and not %d", size, got, want)
		}
	}
}
