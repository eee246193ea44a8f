// SPDX-License-Identifier: Apache-2.0

package query

import (
	"slices"
	"strings"
)

// Node is an expression: And, Or, Not or Term.
type Node interface {
	// String prints the expression as Parse reads it.
	String() string
	node()
}

// And holds if all of its parts do. Without parts it holds.
type And []Node

// Or holds if one of its parts does. Without parts it does not hold.
type Or []Node

// Not holds if its part does not.
type Not struct{ Of Node }

// Term tests one field. Values has one value, or several for In, or none for Has.
type Term struct {
	Field  Field
	Op     Op
	Values []Value
}

func (And) node()  {}
func (Or) node()   {}
func (Not) node()  {}
func (Term) node() {}

// String prints the expression. An And without parts is empty.
func (a And) String() string {
	parts := make([]string, 0, len(a))
	for _, part := range a {
		if _, ok := part.(Or); ok {
			parts = append(parts, "("+part.String()+")")
			continue
		}
		parts = append(parts, part.String())
	}
	return strings.Join(parts, " && ")
}

// String prints the expression.
func (o Or) String() string {
	parts := make([]string, 0, len(o))
	for _, part := range o {
		parts = append(parts, part.String())
	}
	return strings.Join(parts, " || ")
}

// String prints the expression.
func (n Not) String() string {
	if term, ok := n.Of.(Term); ok && term.isCall() {
		return "!" + term.String()
	}
	return "!(" + n.Of.String() + ")"
}

// String prints the expression.
func (t Term) String() string {
	of := t.Field.Type()
	switch t.Op {
	case Has:
		return "has(" + string(t.Field) + ")"
	case StartsWith, Contains:
		return string(t.Field) + "." + string(t.Op) + "(" + t.Values[0].literal(of) + ")"
	case In:
		values := make([]string, 0, len(t.Values))
		for _, value := range t.Values {
			values = append(values, value.literal(of))
		}
		return string(t.Field) + " in [" + strings.Join(values, ", ") + "]"
	default:
		return string(t.Field) + " " + string(t.Op) + " " + t.Values[0].literal(of)
	}
}

// isCall reports whether the term binds as strongly as !, so that it needs no parentheses after one.
func (t Term) isCall() bool { return slices.Contains([]Op{Has, StartsWith, Contains}, t.Op) }

// join ands expressions into one. Nil ones hold.
func join(nodes ...Node) Node {
	var all And
	for _, node := range nodes {
		switch n := node.(type) {
		case nil:
		case And:
			all = append(all, n...)
		default:
			all = append(all, n)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// negate returns what holds where the expression does not.
func negate(node Node) Node {
	if not, ok := node.(Not); ok {
		return not.Of
	}
	return Not{Of: node}
}

// countTerms is the number of terms.
func countTerms(node Node) (n int) {
	switch node := node.(type) {
	case And:
		for _, part := range node {
			n += countTerms(part)
		}
	case Or:
		for _, part := range node {
			n += countTerms(part)
		}
	case Not:
		n = countTerms(node.Of)
	case Term:
		n = 1
	}
	return n
}
