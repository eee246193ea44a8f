// SPDX-License-Identifier: Apache-2.0

package cascades_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/cascades"
)

// scans makes Scans of "name<parent" or "name<parent!" (whose owner of that name is another), each a second younger.
func scans(texts ...string) []executionv1.Scan {
	var all []executionv1.Scan
	for i, text := range texts {
		name, parent, _ := strings.Cut(text, "<")
		parent, other := strings.CutSuffix(parent, "!")
		s := executionv1.Scan{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+i), 0)),
		}}
		if parent != "" {
			s.Annotations = map[string]string{"cascading.securecodebox.io/parent-scan": parent}
			uid := types.UID("uid-" + parent)
			if other {
				uid = "uid-of-another"
			}
			s.OwnerReferences = []metav1.OwnerReference{{Kind: "Scan", Name: parent, UID: uid}}
		}
		all = append(all, s)
	}
	return all
}

func TestForest(t *testing.T) {
	cases := map[string]struct {
		reason string
		scans  []executionv1.Scan
		want   string
	}{
		"None":       {"an empty namespace", nil, ""},
		"Chain":      {"three levels", scans("a", "b<a", "c<b", "d<a"), "a\n├── b\n│   └── c\n└── d\n"},
		"Order":      {"the oldest first, children that were listed first included", scans("b<a", "a", "z"), "a\n└── b\nz\n"},
		"ParentGone": {"shown at the root", scans("b<a", "c<b"), "b (its parent is gone (a))\n└── c\n"},
		"Replaced":   {"another Scan has the name", scans("a", "b<a!"), "a\nb (its parent is gone, another Scan has its name (a))\n"},
		"Itself":     {"annotations are text", scans("a<a", "b<a"), "a (it names itself as a parent, by others or by itself)\n└── b\n"},
		"Circle":     {"once, opened at the oldest", scans("d<c", "a<c", "b<a", "c<b"), "a (it names itself as a parent, by others or by itself)\n└── b\n    └── c\n        └── d\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := cascades.Walk(cascades.Forest(c.scans), func(n *cascades.Node, stem string, _ bool) error {
				out.WriteString(stem + n.Scan.Name)
				if n.Remark != "" {
					out.WriteString(" (" + n.Remark + ")")
				}
				out.WriteString("\n")
				return nil
			})
			if diff := cmp.Diff(c.want, out.String()); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", c.reason, err, diff)
			}
		})
	}
}

// TestForestHasEveryScanOnce has every Scan once, whatever they name, in chains and circles of any length.
func TestForestHasEveryScanOnce(t *testing.T) {
	const count = 20_000
	cases := map[string]func(i int) int{
		"Chain":    func(i int) int { return i - 1 },
		"Backward": func(i int) int { return i + 1 },
		"Circle":   func(i int) int { return (i + 1) % count },
		"Circles":  func(i int) int { return i ^ 1 },
		"Tangle":   func(i int) int { return i * 7919 % count },
	}
	for name, parent := range cases {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for i := range count {
				texts = append(texts, fmt.Sprintf("s%d<s%d", i, parent(i)))
			}
			seen := map[string]bool{}
			forest := cascades.Forest(scans(texts...))
			err := cascades.Walk(forest, func(n *cascades.Node, _ string, _ bool) error {
				seen[n.Scan.Name] = true
				return nil
			})
			if err != nil || len(seen) != count {
				t.Errorf("%d Scans, %v, want %d", len(seen), err, count)
			}
			if n := cascades.Find(forest, "s77"); n == nil || n.Scan.Name != "s77" {
				t.Errorf("found %v", n)
			}
		})
	}
}
