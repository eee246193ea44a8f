// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// node is a Scan of a cascade with those that its findings have started.
type node struct {
	line

	// Here is the Scan whose page shows the cascade.
	Here  bool
	Below []node
	// More are Scans below that are not shown.
	More int
}

const (
	// maxLevels bounds how deep a cascade is shown, maxBelow how many Scans of one level.
	maxLevels = 12
	maxBelow  = 50
)

// cascade is the tree that a Scan is part of: from the first Scan that is still there. It is nil where the Scan has neither started another one
// nor been started by one.
func cascade(newestFirst []*executionv1.Scan, scan *executionv1.Scan, now time.Time) []node {
	byName, below := map[string]*executionv1.Scan{}, map[string][]*executionv1.Scan{}
	for _, s := range newestFirst {
		byName[s.Name] = s
		if parent := s.Annotations[annotationParent]; parent != "" && parent != s.Name {
			below[parent] = append(below[parent], s)
		}
	}
	first := scan
	for range maxLevels { // annotations are anybody's to write: they may lead around in a circle
		parent := byName[first.Annotations[annotationParent]]
		if parent == nil || parent.Name == scan.Name {
			break
		}
		first = parent
	}
	if first.Name == scan.Name && len(below[scan.Name]) == 0 {
		return nil
	}
	var nodeOf func(s *executionv1.Scan, levels int) node
	nodeOf = func(s *executionv1.Scan, levels int) node {
		n := node{line: lineOf(s, now), Here: s.Name == scan.Name}
		for i, child := range below[s.Name] {
			if levels == 0 || i == maxBelow {
				n.More = len(below[s.Name]) - i
				break
			}
			n.Below = append(n.Below, nodeOf(child, levels-1))
		}
		return n
	}
	return []node{nodeOf(first, maxLevels)}
}
