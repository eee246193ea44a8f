// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func report(name string) place { return place{"policyreports", "team", name} }

// TestDifference holds what a round has to do for each thing that can have happened to a report.
func TestDifference(t *testing.T) {
	for name, c := range map[string]struct {
		have  map[place]copied
		there map[place]present
		kept  map[string]bool
		want  round
	}{
		"Equal":    {map[place]copied{report("a"): {UID: "u", version: "1"}}, map[place]present{report("a"): {uid: "u", version: "1"}}, nil, round{}},
		"Created":  {nil, map[place]present{report("b"): {uid: "v"}, report("a"): {uid: "u"}}, nil, round{changed: []place{report("a"), report("b")}}},
		"Changed":  {map[place]copied{report("a"): {UID: "u", version: "1"}}, map[place]present{report("a"): {uid: "u", version: "2"}}, nil, round{changed: []place{report("a")}}},
		"Deleted":  {map[place]copied{report("a"): {UID: "u", version: "1"}}, nil, nil, round{gone: []place{report("a")}}},
		"Replaced": {map[place]copied{report("a"): {UID: "u", version: "1"}}, map[place]present{report("a"): {uid: "v", version: "1"}}, nil, round{changed: []place{report("a")}, gone: []place{report("a")}}},
		"Kept":     {map[place]copied{report("a"): {UID: "u", version: "1"}}, nil, map[string]bool{"u": true}, round{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, difference(c.have, c.there, c.kept), cmp.AllowUnexported(round{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLeftovers holds that what an earlier run has sent and what has gone since is found, by uid.
func TestLeftovers(t *testing.T) {
	line := func(name, uid string) recorded { return recorded{report(name), copied{UID: uid}} }
	earlier := []recorded{line("there", "u1"), line("gone", "u2"), line("replaced", "u3"), line("replaced", "u4"), line("kept", "u5")}
	got := leftovers(earlier, map[place]present{report("there"): {uid: "u1"}, report("replaced"): {uid: "u4"}}, map[string]bool{"u5": true})
	if diff := cmp.Diff([]recorded{line("gone", "u2"), line("replaced", "u3")}, got, cmp.AllowUnexported(copied{})); diff != "" {
		t.Error(diff)
	}
}

func TestBatches(t *testing.T) {
	for name, c := range map[string]struct{ sizes, want []int }{
		"None":     {nil, nil},
		"One":      {[]int{1}, []int{1}},
		"TooLarge": {[]int{1, 2 * batchBytes, 1, 1}, []int{1, 2, 4}},
		"ByBytes":  {[]int{batchBytes / 2, batchBytes / 2, 1}, []int{2, 3}},
		"ByNumber": {slices.Repeat([]int{1}, 2*batchObjects+1), []int{batchObjects, 2 * batchObjects, 2*batchObjects + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, batches(c.sizes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDifferences holds that everything that a move may lose is told, and nothing that was written since.
func TestDifferences(t *testing.T) {
	want := map[place]copied{
		report("equal"): {UID: "u", Hash: "h"}, report("missing"): {UID: "u", Hash: "h"}, report("other"): {UID: "u", Hash: "h"},
		report("content"): {UID: "u", Hash: "h"}, report("since"): {UID: "u", Hash: "h"},
	}
	have := map[place]found{
		report("equal"): {uid: "u", hash: "h"}, report("other"): {uid: "v", hash: "h"}, report("content"): {uid: "u", hash: "i"},
		report("since"): {uid: "v", hash: "i", since: true}, report("extra"): {uid: "w"},
	}
	got := differences(want, have)
	if diff := cmp.Diff([]string{
		"policyreports content in namespace team: has another content", "policyreports missing in namespace team: is missing",
		"policyreports other in namespace team: has uid v, had u",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTwice(t *testing.T) {
	a := map[place]present{report("x"): {}, report("y"): {}, {"clusterpolicyreports", "", "z"}: {}}
	b := map[place]present{{"reports", "team", "x"}: {}, {"reports", "other", "y"}: {}, {"clusterreports", "", "z"}: {}}
	if diff := cmp.Diff([]place{{"clusterpolicyreports", "", "z"}, report("x")}, twice(a, b)); diff != "" {
		t.Error(diff)
	}
}

func TestGroups(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  string
		err   string
	}{
		"All":     {groupNames(), "wgpolicyk8s.io openreports.io", ""},
		"Doubled": {[]string{"openreports.io", "openreports.io"}, "openreports.io", ""},
		"Unknown": {[]string{"apps"}, "", `"apps" cannot be moved: choose from wgpolicyk8s.io,openreports.io`},
		"None":    {nil, "", "names no group"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := groupsOf(c.names)
			var names []string
			for _, g := range got {
				names = append(names, g.name)
			}
			if strings.Join(names, " ") != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
	if got := groups[0].readFrom([]string{"v1alpha1", "v1beta1"}); got != "v1beta1" {
		t.Errorf("read from %q, want v1beta1", got)
	}
	if got := groups[0].readFrom([]string{"v2"}); got != "" {
		t.Errorf("read from %q, want none", got)
	}
}
