// SPDX-License-Identifier: Apache-2.0

package usage

import "testing"

func TestHeld(t *testing.T) {
	const profile = "heap profile: 1: 2 [3: 4] @ heap/1048576\n# runtime.MemStats\n# Alloc = 5\n# HeapAlloc = 6\n# HeapSys = 7\n"
	if held, err := Held(profile); held != 6 || err != nil {
		t.Errorf("%d %v", held, err)
	}
	if _, err := Held("# Alloc = 5\n"); err == nil {
		t.Error("a profile without its heap has no error")
	}
}
