// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTrim(t *testing.T) {
	crd := `spec:
  schema:
    properties:
      ours: {description: kept, type: string}
      env:
        description: also kept
        items:
          description: gone
          properties:
            description: {description: a field of that name stays, type: string}
            value: {description: gone, type: string}
`
	out, err := trim([]byte(crd))
	if err != nil {
		t.Fatal(err)
	}
	got := string(out)
	for _, want := range []string{"description: kept", "description: also kept", "            description:\n              type: string"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "gone") || strings.Contains(got, "of that name stays") {
		t.Errorf("descriptions of foreign fields were kept:\n%s", got)
	}
}

func TestTrimBoundsTheListsOfScans(t *testing.T) {
	const lists = `
          initContainers:
            maxItems: 32
            type: array
            items: {properties: {args: {type: array, items: {type: string}}}}`
	out, err := trim([]byte("spec:\n  properties:\n    scanSpec:\n        properties:\n          scanType: {type: string}\n          parameters: {type: array}" + lists))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out); strings.Count(got, "maxItems: 512") != 1 || strings.Count(got, "maxItems: 32\n") != 1 {
		t.Errorf("want args bounded and initContainers as they were:\n%s", got)
	}
	out, err = trim([]byte("spec:\n  properties:\n    podSpec:\n        properties:" + lists))
	if err != nil || strings.Contains(string(out), "512") {
		t.Errorf("no Scan (%v):\n%s", err, out)
	}
}

func TestTrimRefusesWhatApplyCannotStore(t *testing.T) {
	_, err := trim([]byte("description: " + strings.Repeat("x", maxBytes)))
	if err == nil || !strings.Contains(err.Error(), "client-side apply") {
		t.Fatalf("err = %v, want the limit of client-side apply", err)
	}
}
