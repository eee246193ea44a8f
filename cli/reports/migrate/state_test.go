// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecord holds that the record reads back whole, and that a part fits into a ConfigMap whatever the uids are.
func TestRecord(t *testing.T) {
	objects := map[place]copied{}
	for i := range recordObjects + 1 {
		at := place{"policyreports", fmt.Sprintf("namespace-%d", i%200), fmt.Sprintf("polr-ns-%s", rand.Text())}
		objects[at] = copied{UID: rand.Text() + rand.Text()[:10], Hash: rand.Text()[:24], Deleting: i == 7}
	}
	parts, err := encodeRecord(objects)
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	back := map[place]copied{}
	for _, part := range parts {
		if encoded := len(part) * 4 / 3; encoded > 1<<20 {
			t.Errorf("a part has %d bytes in a ConfigMap", encoded)
		}
		lines, err := decodeRecord(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			back[line.Place] = line.Object
		}
	}
	if diff := cmp.Diff(objects, back, cmp.AllowUnexported(copied{})); diff != "" {
		t.Error("the record does not read back whole")
	}
	if _, err := decodeRecord([]byte("no gzip")); err == nil {
		t.Error("a broken part is not an error")
	}
}

func TestState(t *testing.T) {
	want := state{Phase: phaseSettled, Counter: "1000123", Records: 3, Updated: "2026-11-23T03:00:00Z"}
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeState(text); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeState(""); err != nil || got.Phase != phaseNew {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := decodeState("{"); err == nil {
		t.Error("a broken state is not an error")
	}
}
