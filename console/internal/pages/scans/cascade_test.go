// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"fmt"
	"strings"
	"testing"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func started(name, by string) *executionv1.Scan {
	s := &executionv1.Scan{}
	s.Namespace, s.Name = "team", name
	if by != "" {
		s.Annotations = map[string]string{annotationParent: by}
	}
	return s
}

// drawn is a cascade in one line: name(below), and * where the page is.
func drawn(nodes []node) string {
	var parts []string
	for i := range nodes {
		text := nodes[i].Name
		if nodes[i].Here {
			text += "*"
		}
		if below := drawn(nodes[i].Below); below != "" {
			text += "(" + below + ")"
		}
		if nodes[i].More > 0 {
			text += fmt.Sprintf("+%d", nodes[i].More)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestCascade(t *testing.T) {
	long := []*executionv1.Scan{started("s0", "")}
	for i := range 2 * maxLevels {
		long = append(long, started(fmt.Sprintf("s%d", i+1), fmt.Sprintf("s%d", i)))
	}
	wide := []*executionv1.Scan{started("a", "")}
	for i := range maxBelow + 3 {
		wide = append(wide, started(fmt.Sprintf("b%d", i), "a"))
	}
	for name, c := range map[string]struct {
		reason string
		scans  []*executionv1.Scan
		here   string
		want   string
	}{
		"Alone":        {"a Scan without a cascade has no tree", []*executionv1.Scan{started("a", ""), started("b", "")}, "a", ""},
		"First":        {"", []*executionv1.Scan{started("a", ""), started("b", "a"), started("c", "b"), started("d", "a")}, "a", "a*(b(c) d)"},
		"InTheMiddle":  {"the whole tree is shown from its first Scan", []*executionv1.Scan{started("a", ""), started("b", "a"), started("c", "b")}, "b", "a(b*(c))"},
		"ParentIsGone": {"what is deleted cannot be shown", []*executionv1.Scan{started("b", "a"), started("c", "b")}, "b", "b*(c)"},
		"LastOfAll":    {"", []*executionv1.Scan{started("b", "a")}, "b", ""},
		"OfItself":     {"annotations are anybody's", []*executionv1.Scan{started("a", "a")}, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var scan *executionv1.Scan
			for _, s := range c.scans {
				if s.Name == c.here {
					scan = s
				}
			}
			if got := drawn(cascade(c.scans, scan, time.Now())); got != c.want {
				t.Errorf("got %s, want %s: %s", got, c.want, c.reason)
			}
		})
	}
	circle := []*executionv1.Scan{started("a", "c"), started("b", "a"), started("c", "b")}
	if got := drawn(cascade(circle, circle[0], time.Now())); strings.Count(got, "(") != maxLevels {
		t.Errorf("a circle is drawn as %s", got)
	}
	if got := drawn(cascade(long, long[0], time.Now())); strings.Count(got, "(") != maxLevels || !strings.Contains(got, "+1") {
		t.Errorf("a deep cascade is %s", got)
	}
	if got := cascade(wide, wide[0], time.Now()); len(got[0].Below) != maxBelow || got[0].More != 3 {
		t.Errorf("a wide cascade shows %d and %d more", len(got[0].Below), got[0].More)
	}
}
