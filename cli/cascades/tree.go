// SPDX-License-Identifier: Apache-2.0

package cascades

import (
	"cmp"
	"slices"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// annotationParent names the Scan whose findings have started a Scan. The hook cascading-scans writes it.
const annotationParent = "cascading.securecodebox.io/parent-scan"

// Remarks about Scans at the root that name a parent.
const (
	remarkGone     = "its parent is gone"
	remarkReplaced = "its parent is gone, another Scan has its name"
	remarkCircle   = "it names itself as a parent, by others or by itself"
)

// Node is a Scan with the Scans that it has started.
type Node struct {
	Scan     *executionv1.Scan
	Children []*Node
	// Remark explains an unusual place of the Scan in the tree.
	Remark string
}

// Forest arranges Scans below the Scans that started them, the oldest first. Every Scan is in it once.
func Forest(scans []executionv1.Scan) []*Node {
	nodes := make([]*Node, len(scans))
	byName := make(map[string]*Node, len(scans))
	for i := range scans {
		nodes[i] = &Node{Scan: &scans[i]}
		byName[scans[i].Name] = nodes[i]
	}
	slices.SortStableFunc(nodes, older)
	parents := make(map[*Node]*Node, len(scans))
	var roots []*Node
	for _, n := range nodes {
		parents[n], n.Remark = parentOf(n.Scan, byName)
	}
	openCircles(nodes, parents)
	for _, n := range nodes {
		if parent := parents[n]; parent != nil {
			parent.Children = append(parent.Children, n)
			continue
		}
		roots = append(roots, n)
	}
	return roots
}

func older(a, b *Node) int {
	return cmp.Or(a.Scan.CreationTimestamp.Compare(b.Scan.CreationTimestamp.Time), cmp.Compare(a.Scan.Name, b.Scan.Name))
}

// parentOf returns the parent, or a remark where the named parent is not there.
func parentOf(s *executionv1.Scan, byName map[string]*Node) (*Node, string) {
	name := s.Annotations[annotationParent]
	if name == "" {
		return nil, ""
	}
	parent := byName[name]
	if parent == nil {
		return nil, remarkGone + " (" + name + ")"
	}
	for _, owner := range s.OwnerReferences {
		if owner.Kind == "Scan" && owner.Name == name && owner.UID != parent.Scan.UID {
			return nil, remarkReplaced + " (" + name + ")"
		}
	}
	return parent, ""
}

// openCircles takes the parent from the oldest Scan of each circle, so that the other Scans hang below it. It visits each
// Scan once.
func openCircles(nodes []*Node, parents map[*Node]*Node) {
	const onPath, done = 1, 2
	state := make(map[*Node]int, len(nodes))
	for _, n := range nodes {
		var path []*Node
		up := n
		for up != nil && state[up] == 0 {
			state[up] = onPath
			path = append(path, up)
			up = parents[up]
		}
		if up != nil && state[up] == onPath {
			oldest := slices.MinFunc(path[slices.Index(path, up):], older)
			oldest.Remark = remarkCircle
			parents[oldest] = nil
		}
		for _, p := range path {
			state[p] = done
		}
	}
}

// Find is the node of a name in a forest; nil if there is none.
func Find(forest []*Node, name string) *Node {
	for left := slices.Clone(forest); len(left) > 0; {
		n := left[len(left)-1]
		left = append(left[:len(left)-1], n.Children...)
		if n.Scan.Name == name {
			return n
		}
	}
	return nil
}

// Walk visits a forest from the top, each parent before its children. Chains may be of any length.
func Walk(forest []*Node, visit func(n *Node, stem string, last bool) error) error {
	type place struct {
		node *Node
		stem string
		last bool
		root bool
	}
	var left []place
	push := func(nodes []*Node, stem string, root bool) {
		for i, n := range slices.Backward(nodes) {
			left = append(left, place{n, stem, i == len(nodes)-1, root})
		}
	}
	push(forest, "", true)
	for len(left) > 0 {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		branch, below := at.stem+"├── ", at.stem+"│   "
		if at.last {
			branch, below = at.stem+"└── ", at.stem+"    "
		}
		if at.root {
			branch, below = "", ""
		}
		if err := visit(at.node, branch, at.last); err != nil {
			return err
		}
		push(at.node.Children, shortened(below), false)
	}
	return nil
}

// maxStem is how far names are set in: chains of any depth stay readable.
const maxStem = 60

func shortened(stem string) string {
	all := []rune(stem)
	if len(all) <= maxStem {
		return stem
	}
	return "… " + string(all[len(all)-maxStem+2:])
}
