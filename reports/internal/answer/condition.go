// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"slices"
	"time"

	"github.com/scanyard/scanyard/findings/query"
)

// Numbers of severities and results, that of an absent one included.
const (
	severities = 6
	results    = 6
)

// compiler turns expressions into conditions on one table.
type compiler struct {
	dialect dialect
	fields  map[query.Field]column
	ids     map[string]int64 // numbers of the texts that the dictionary has
	empty   int64            // that of the empty text, 0 if the dictionary does not have it
	having  map[part][]int64 // numbers of the texts that have a part, for parts that few have
	now     time.Time
}

// part is what a text is to begin with, or to contain.
type part struct {
	op   query.Op
	text string
}

// inDictionary is the condition of a name's text.
func (p part) inDictionary(d dialect) sqlText {
	if p.op == query.Contains {
		return d.contains("s", p.text)
	}
	return d.startsWith("s", p.text)
}

// condition is what holds for a row if the expression does, or if it does not. Negations are pushed to the terms: each
// says of an absent value what it means, so that no condition is neither true nor false.
func (c *compiler) condition(node query.Node, holds bool) sqlText {
	parts := func(nodes []query.Node) (pieces []sqlText) {
		for _, part := range nodes {
			pieces = append(pieces, c.condition(part, holds))
		}
		return pieces
	}
	switch node := node.(type) {
	case query.And:
		if holds {
			return all(parts(node))
		}
		return anyOf(parts(node))
	case query.Or:
		if holds {
			return anyOf(parts(node))
		}
		return all(parts(node))
	case query.Not:
		return c.condition(node.Of, !holds)
	case query.Term:
		return c.term(node, holds)
	default:
		return never
	}
}

func (c *compiler) term(t query.Term, holds bool) sqlText {
	column := c.fields[t.Field]
	switch column.storage {
	case named:
		return c.name(column.name, t, holds)
	case optionalName:
		return c.optionalName(column.name, t, holds)
	case plain:
		return c.text(column.name, t, holds)
	case rank:
		return numbered(column.name, severities, func(i int) bool { return (i > 0 && matches(t, i)) == holds })
	case code:
		return numbered(column.name, results, func(i int) bool { return (i > 0 && matches(t, i)) == holds })
	case flag:
		return numbered(column.name, 2, func(i int) bool { return matches(t, i) == holds })
	case optionalFlag:
		return optional(column.name, t, holds, func(v query.Value) any { return numberOf(t.Field, v) })
	case score:
		return optional(column.name, t, holds, func(v query.Value) any { return v.Number })
	case moment:
		return c.moment(column.name, t, holds)
	case duration:
		return c.moment(column.name, c.began(t), holds)
	case lasted:
		return c.lasted(column.name, t, holds)
	}
	return never
}

// numbered enumerates the values of a column that has few, which indexes serve better than a range.
func numbered(column string, n int, fits func(i int) bool) sqlText {
	var some []int64
	for i := range n {
		if fits(i) {
			some = append(some, int64(i))
		}
	}
	if len(some) == n {
		return always
	}
	return in(column, some)
}

// matches tells whether a term holds for the value of a number.
func matches(t query.Term, i int) bool {
	fits := func(order int) bool {
		switch t.Op {
		case query.Equal, query.In:
			return order == 0
		case query.NotEqual:
			return order != 0
		case query.Less:
			return order < 0
		case query.LessEqual:
			return order <= 0
		case query.Greater:
			return order > 0
		case query.GreaterEqual:
			return order >= 0
		case query.Has, query.StartsWith, query.Contains:
		}
		return false
	}
	if t.Op == query.Has {
		return true
	}
	return slices.ContainsFunc(t.Values, func(v query.Value) bool { return fits(i - numberOf(t.Field, v)) })
}

func numberOf(field query.Field, v query.Value) int {
	switch field.Type() {
	case query.Severity:
		return v.Rank
	case query.Result:
		return query.Code(v.Text)
	case query.Flag:
		if v.Flag {
			return 1
		}
	case query.Text, query.Number, query.Time, query.Duration:
	}
	return 0
}

// name is a term about a text in the dictionary.
func (c *compiler) name(column string, t query.Term, holds bool) sqlText {
	var p sqlText
	switch t.Op {
	case query.Has:
		verb := " <> ?"
		if !holds {
			verb = " = ?"
		}
		return piece(column+verb, c.empty)
	case query.StartsWith, query.Contains:
		of := part{t.Op, t.Values[0].Text}
		if ids, few := c.having[of]; few {
			p = in(column, ids)
			break
		}
		verb := " IN "
		if !holds {
			verb = " NOT IN "
		}
		return concat(piece(column+verb+"(SELECT id FROM names WHERE "), of.inDictionary(c.dialect), piece(")"))
	case query.NotEqual:
		p = notIn(column, append(c.idsOf(t.Values), c.empty))
	default:
		p = in(column, c.idsOf(t.Values))
	}
	if !holds {
		p = piece("NOT ("+p.text+")", p.args...)
	}
	return p
}

// optionalName is a term about a text in the dictionary that may be NULL.
func (c *compiler) optionalName(column string, t query.Term, holds bool) sqlText {
	switch {
	case t.Op == query.Has:
		return negatable(column+" IS NOT NULL", column+" IS NULL", holds)
	case holds:
		return all([]sqlText{piece(column + " IS NOT NULL"), c.name(column, t, true)})
	}
	return anyOf([]sqlText{piece(column + " IS NULL"), c.name(column, t, false)})
}

// idsOf are the numbers of those texts that the dictionary has.
func (c *compiler) idsOf(values []query.Value) (ids []int64) {
	for _, value := range values {
		if id, ok := c.ids[value.Text]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func negatable(yes, no string, holds bool) sqlText {
	if holds {
		return piece(yes)
	}
	return piece(no)
}

// text is a term about a text that stands in the row.
func (c *compiler) text(column string, t query.Term, holds bool) (p sqlText) {
	switch t.Op {
	case query.Has:
		return negatable("1 = 1", "1 = 0", holds)
	case query.StartsWith:
		p = c.dialect.startsWith(column, t.Values[0].Text)
	case query.Contains:
		p = c.dialect.contains(column, t.Values[0].Text)
	default:
		texts := make([]string, 0, len(t.Values))
		for _, value := range t.Values {
			texts = append(texts, value.Text)
		}
		p = in(column, texts)
	}
	if (t.Op != query.NotEqual) != holds {
		p = piece("NOT ("+p.text+")", p.args...)
	}
	return p
}

// optional is a term about a number that may be NULL.
func optional(column string, t query.Term, holds bool, number func(query.Value) any) sqlText {
	var p sqlText
	switch t.Op {
	case query.Has:
		return negatable(column+" IS NOT NULL", column+" IS NULL", holds)
	case query.In:
		values := make([]any, 0, len(t.Values))
		for _, value := range t.Values {
			values = append(values, number(value))
		}
		p = in(column, values)
	default:
		p = piece(column+" "+operators[t.Op]+" ?", number(t.Values[0]))
	}
	if !holds {
		p = piece("("+column+" IS NULL OR NOT ("+p.text+"))", p.args...)
	}
	return p
}

var operators = map[query.Op]string{
	query.Equal: "=", query.NotEqual: "<>", query.Less: "<", query.LessEqual: "<=", query.Greater: ">", query.GreaterEqual: ">=",
}

// moment is a term about a time.
func (c *compiler) moment(column string, t query.Term, holds bool) sqlText {
	op, values := inSeconds(t, func(v query.Value) (int64, bool) { return v.Time.Unix(), v.Time.Nanosecond() > 0 })
	switch {
	case op == query.Has:
		return optional(column, query.Term{Op: op}, holds, nil)
	case len(values) == 0:
		return negatable("1 = 0", "1 = 1", holds)
	}
	p := compared(column, op, values)
	if !holds {
		return piece("("+column+" IS NULL OR NOT ("+p.text+"))", p.args...)
	}
	return p
}

// inSeconds turns the values of a term into whole seconds, which columns have. A value between two is turned into one
// that has the same seconds on its sides; none is equal to it.
func inSeconds(t query.Term, seconds func(query.Value) (floor int64, between bool)) (op query.Op, values []int64) {
	op = t.Op
	for _, value := range t.Values {
		floor, between := seconds(value)
		switch {
		case !between, t.Op == query.LessEqual, t.Op == query.Greater:
			values = append(values, floor)
		case t.Op == query.Less, t.Op == query.GreaterEqual:
			values = append(values, floor+1)
		case t.Op == query.NotEqual:
			op = query.Has
		}
	}
	return op, values
}

func compared(column string, op query.Op, values []int64) sqlText {
	if op == query.In {
		return in(column, values)
	}
	return piece(column+" "+operators[op]+" ?", values[0])
}

// began turns a term about how long something has been there into one about when it began.
func (c *compiler) began(t query.Term) query.Term {
	turned := map[query.Op]query.Op{
		query.Less: query.Greater, query.LessEqual: query.GreaterEqual, query.Greater: query.Less, query.GreaterEqual: query.LessEqual,
	}
	if op, ok := turned[t.Op]; ok {
		t.Op = op
	}
	values := make([]query.Value, 0, len(t.Values))
	for _, value := range t.Values {
		values = append(values, query.Value{Time: c.now.Add(-value.Duration)})
	}
	t.Values = values
	return t
}

// lasted is a term about how many seconds something has been there, which is never absent. The expression has a
// parameter for now.
func (c *compiler) lasted(expression string, t query.Term, holds bool) sqlText {
	op, values := inSeconds(t, func(v query.Value) (int64, bool) {
		return int64(v.Duration / time.Second), v.Duration%time.Second > 0
	})
	if op == query.Has {
		return negatable("1 = 1", "1 = 0", holds)
	}
	var parts []sqlText
	for _, value := range values {
		parts = append(parts, piece(expression+" "+operators[cmp.Or(map[query.Op]query.Op{query.In: query.Equal}[op], op)]+" ?", c.now.Unix(), value))
	}
	p := anyOf(parts)
	if !holds {
		return piece("NOT ("+p.text+")", p.args...)
	}
	return p
}
