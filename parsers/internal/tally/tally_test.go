// SPDX-License-Identifier: Apache-2.0

package tally_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/tally"
)

func TestTally(t *testing.T) {
	var counts tally.Tally
	if diff := cmp.Diff(finding.Object{}, counts.Object()); diff != "" {
		t.Errorf("empty (-want +got):\n%s", diff)
	}
	for _, name := range []string{"npm", "deb", "npm", strings.Repeat("x", 201)} {
		counts.Add(name)
	}
	want := finding.Object{{Key: "(other)", Value: 1}, {Key: "deb", Value: 1}, {Key: "npm", Value: 2}}
	if diff := cmp.Diff(want, counts.Object()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManyNames(t *testing.T) {
	var counts tally.Tally
	for i := range 5000 {
		counts.Add(strconv.Itoa(i))
	}
	sum := 0
	for _, m := range counts.Object() {
		sum += m.Value.(int)
	}
	if got, _ := counts.Object().Get("(other)"); got != 4000 || len(counts.Object()) != 1001 || sum != 5000 {
		t.Errorf("%d names, other %v, sum %d", len(counts.Object()), got, sum)
	}
}

func TestEcosystem(t *testing.T) {
	for purl, want := range map[string]string{
		"pkg:npm/left-pad@1.0.0": "npm", "pkg:Deb/debian/curl@1?arch=amd64": "deb", "pkg://golang/example.com/x": "golang",
		"": "(unknown)", "npm/x": "(unknown)", "pkg:": "(unknown)", "pkg:npm": "(unknown)", "pkg:/": "(unknown)",
	} {
		if got := tally.Ecosystem(purl); got != want {
			t.Errorf("%q: want %q, got %q", purl, want, got)
		}
	}
}
