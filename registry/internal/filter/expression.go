// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	maxExpression = 4096
	maxCost       = 100_000
)

// expression is CEL that was found to be of type bool.
type expression struct {
	program cel.Program
	// words are the variables in it.
	words map[string]bool
}

func newEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("tag", cel.StringType), cel.Variable("repository", cel.StringType), cel.Variable("registry", cel.StringType),
		cel.Variable("digest", cel.StringType), cel.Variable("created", cel.TimestampType), cel.Variable("hasCreated", cel.BoolType),
		cel.Variable("now", cel.TimestampType), cel.Variable("platforms", cel.ListType(cel.StringType)),
		ext.Strings(), library.SemverLib(library.SemverVersion(1)),
	)
}

func newExpression(environment *cel.Env, text string) (*expression, error) {
	if utf8.RuneCountInString(text) > maxExpression {
		return nil, fmt.Errorf("the expression has more than %d characters", maxExpression)
	}
	ast, issues := environment.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, oneLine(err)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("the expression is of type %s: it must be of type bool", ast.OutputType())
	}
	program, err := environment.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(&library.CostEstimator{}), cel.CostLimit(maxCost))
	if err != nil {
		return nil, oneLine(err)
	}
	e := &expression{program: program, words: map[string]bool{}}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		e.words[reference.Name] = true
	}
	return e, nil
}

// asks tells whether the expression has one of some words.
func (e *expression) asks(words ...string) bool {
	return e != nil && slices.ContainsFunc(words, func(word string) bool { return e.words[word] })
}

// holds evaluates the expression for a tag.
func (e *expression) holds(r Repository, name string, t candidate) (bool, error) {
	value, _, err := e.program.Eval(&words{repository: r, name: name, tag: t})
	if err != nil {
		return false, oneLine(err)
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the expression gave a %s", value.Type().TypeName())
	}
	return held, nil
}

// words are the variables of an expression for one tag. Those that are not asked for are not made.
type words struct {
	repository Repository
	name       string
	tag        candidate
}

// ResolveName implements cel.Activation. CEL reads hours and days in the zone that a time carries: they must not depend on the zone that a
// date was written in.
func (w *words) ResolveName(name string) (any, bool) {
	switch name {
	case "tag":
		return w.tag.Name, true
	case "repository":
		return w.name, true
	case "registry":
		return w.repository.Registry, true
	case "digest":
		return w.tag.Digest, true
	case "created":
		if w.tag.created.IsZero() {
			return time.Unix(0, 0).UTC(), true
		}
		return w.tag.created.UTC(), true
	case "hasCreated":
		return !w.tag.created.IsZero(), true
	case "now":
		return w.repository.Now.UTC(), true
	case "platforms":
		return w.tag.canonical, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (*words) Parent() cel.Activation { return nil }

// oneLine makes the text of an error fit a field: the compiler draws an arrow below the expression.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
