// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/scanyard/scanyard/apis/finding"
)

const (
	// CostLimit bounds one evaluation, in CEL's units: about a microsecond of work for ten of them.
	CostLimit = 1_000_000
	// MaxLength is how long an expression may be, in bytes.
	MaxLength = 4096
	variable  = "finding"
)

// ErrTooExpensive says that an evaluation was stopped at its limit.
var ErrTooExpensive = errors.New("the expression costs more than one finding may cost")

// Fields are the names that an expression may select from finding.
var Fields = []string{
	"attributes", "category", "description", "fingerprint", "id", "identified_at", "location", "mitigation", "name",
	"osi_layer", "parsed_at", "references", "scan", "severity",
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct{ program cel.Program }

// environment is the same for all expressions and takes a while to make.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable(variable, cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(ext.StringsVersion(4)),
		ext.Lists(ext.ListsVersion(3)),
		ext.Sets(),
	)
})

// Compile checks an expression: its syntax, its types, the names of fields.
func Compile(text string) (*Expression, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("the expression has %d bytes, %d are allowed", len(text), MaxLength)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return nil, fmt.Errorf("the expression yields %s, want bool", kind)
	}
	if err := checkFields(checked.NativeRep().Expr()); err != nil {
		return nil, err
	}
	program, err := env.Program(checked, cel.CostLimit(CostLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("prepare expression: %w", err)
	}
	return &Expression{program}, nil
}

// checkFields finds finding.name with a name that no finding has. A field that another hook has added is written as
// finding["name"].
func checkFields(e ast.Expr) error {
	var unknown error
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		name, ok := selected(e)
		if ok && !slices.Contains(Fields, name) && unknown == nil {
			unknown = fmt.Errorf(
				"a finding has no field %q; there are %s; what the scanner found is below finding.attributes, a field of your own is finding[%q]",
				name, strings.Join(Fields, ", "), name,
			)
		}
	}))
	return unknown
}

// selected is the name that an expression takes from the variable.
func selected(e ast.Expr) (string, bool) {
	isVariable := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == variable }
	switch e.Kind() {
	default:
		return "", false
	case ast.SelectKind:
		return e.AsSelect().FieldName(), isVariable(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if args := call.Args(); len(args) == 2 && isVariable(args[0]) && args[1].Kind() == ast.LiteralKind &&
			call.FunctionName() == "_?._" {
			name, ok := args[1].AsLiteral().Value().(string)
			return name, ok
		}
	}
	return "", false
}

// Matches says whether a finding meets the expression. An error means that the expression itself is at fault.
func (x *Expression) Matches(f finding.Object) (bool, error) {
	result, _, err := x.program.Eval(map[string]any{variable: native(f)})
	if err != nil {
		if strings.Contains(err.Error(), "cost limit exceeded") {
			return false, ErrTooExpensive
		}
		return false, nil // a field that is not there
	}
	return isTrue(result), nil
}

func isTrue(v ref.Val) bool { return v == types.True }

// native makes of a decoded value what CEL calculates with.
func native(v any) any {
	switch v := v.(type) {
	case finding.Object:
		m := make(map[string]any, len(v))
		for _, member := range v {
			m[member.Key] = native(member.Value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = native(e)
		}
		return list
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return v
}
