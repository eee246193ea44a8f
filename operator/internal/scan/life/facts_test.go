// SPDX-License-Identifier: Apache-2.0

package life

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDecisionsDoNotReadMessages: messages are for people, and may be reworded and translated. What
// decides may hand one on, and neither compares it nor looks into it.
func TestDecisionsDoNotReadMessages(t *testing.T) {
	var sources []string
	for _, folder := range []string{".", ".."} { // of the decisions, and of what reads and acts around them
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, names...)
	}
	// These read what others say: pods, Events and the API server have no fields for it.
	translators := []string{"pods.go", "reported.go", "rejected.go", "../terminationmessage.go", "../trim.go"}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(translators, name) {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range readMessages(file) {
			t.Errorf("%s: this decides by the text of a message; keep the fact in a field", files.Position(at))
		}
	}
}

// TestFactsTestSees: the test above finds what it is there for.
func TestFactsTestSees(t *testing.T) {
	const text = `package p
func f() {
	if c.Message == "" || len(c.Reason) > 0 { return }
	strings.Contains(c.Message, "x")
	fmt.Sscanf(s.ErrorDescription, "%d", &n)
	switch c.Message { case "x": }
	t = trouble{c.Reason, c.Message}
	message += "; before that: " + c.Message
	fmt.Sprintf("%s", c.Message)
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(readMessages(file)); n != 4 {
		t.Errorf("%d places are found, want 4", n)
	}
}

// readMessages finds where messages of conditions, hooks and Scans are compared or searched.
func readMessages(file *ast.File) (at []token.Pos) {
	note := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok && (s.Sel.Name == "Message" || s.Sel.Name == "ErrorDescription") {
			at = append(at, s.Pos())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				note(n.X)
				note(n.Y)
			}
		case *ast.SwitchStmt:
			note(n.Tag)
		case *ast.CallExpr:
			if searches(n.Fun) {
				for _, arg := range n.Args {
					note(arg)
				}
			}
		}
		return true
	})
	return at
}

// searches says whether a function looks into a text.
func searches(f ast.Expr) bool {
	s, ok := f.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && (pkg.Name == "strings" || pkg.Name == "slices" || pkg.Name == "regexp" || pkg.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Sscan"))
}
