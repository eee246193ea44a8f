// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/findings/query"
)

// What stands for an absent value in an order: it is less than all there are.
const (
	absentScore  = "-1"
	absentMoment = "-99999999999"
	daySeconds   = "86400"
)

// key is one key of an order.
type key struct {
	expression string // over r, o, t and the tables of joins
	join       string // a join of names that the expression needs
	descending bool
	holds      keyType
}

type keyType int

const (
	wholeKey keyType = iota
	realKey
	textKey
)

// target is a place that a key of a row is read into.
func (k key) target() any {
	switch k.holds {
	case textKey:
		return new(string)
	case realKey:
		return new(float64)
	default:
		return new(int64)
	}
}

// fits turns the value of a token into one that the key can be compared with.
func (k key) fits(value any) (any, bool) {
	switch value := value.(type) {
	case string:
		return value, k.holds == textKey && !strings.ContainsRune(value, 0)
	case int64:
		if k.holds == realKey {
			return float64(value), true
		}
		return value, k.holds == wholeKey
	case float64:
		return value, k.holds == realKey
	}
	return nil, false
}

func orderBy(keys []key) string {
	words := make([]string, 0, len(keys))
	for _, k := range keys {
		word := k.expression
		if k.descending {
			word += " DESC"
		}
		words = append(words, word)
	}
	return " ORDER BY " + strings.Join(words, ", ")
}

// behind is what holds for rows that come after a row with the given values. The first comparison bounds the part of an
// index that is read.
func behind(keys []key, values []any) sqlText {
	if len(values) == 0 {
		return always
	}
	first := keys[0]
	later := func(k key, orEqual string) string {
		if k.descending {
			return k.expression + " <" + orEqual + " ?"
		}
		return k.expression + " >" + orEqual + " ?"
	}
	p := piece(later(keys[len(keys)-1], ""), values[len(keys)-1])
	for i := len(keys) - 2; i >= 0; i-- {
		p = concat(piece("("+later(keys[i], "")+" OR ("+keys[i].expression+" = ? AND ", values[i], values[i]), p, piece("))"))
	}
	return concat(piece(later(first, "=")+" AND ", values[0]), p)
}

// rowKeys is the order of rows.
func (r *run) rowKeys() []key {
	var keys []key
	for i, order := range r.question.Sort {
		field := query.Field(order.By)
		column := r.compiler.fields[field]
		k := key{expression: column.name, descending: order.Descending}
		present := requires(r.question, field)
		switch column.storage {
		case named, optionalName:
			k.join = fmt.Sprintf(" LEFT JOIN names k%d ON k%d.id = %s", i, i, column.name)
			k.expression = r.dialect.bytewise(fmt.Sprintf("COALESCE(k%d.s, '')", i))
			k.holds = textKey
		case plain:
			k.holds, k.expression = textKey, r.dialect.bytewise(column.name)
		case score:
			k.holds = realKey
			if !present {
				k.expression = "COALESCE(" + column.name + ", " + absentScore + ")"
			}
		case moment:
			if !present {
				k.expression = "COALESCE(" + column.name + ", " + absentMoment + ")"
			}
		case duration:
			k.expression = "COALESCE(-" + column.name + ", " + absentMoment + ")"
		case optionalFlag:
			k.expression = "COALESCE(" + column.name + ", -1)"
		case rank, code, lasted, flag:
		}
		keys = append(keys, k)
	}
	last := keys[len(keys)-1].descending
	if r.plan == PlanHistory {
		return append(keys,
			key{expression: "r.ns", descending: last}, key{expression: "r.target", descending: last},
			key{expression: r.dialect.bytewise("r.fingerprint"), descending: last, holds: textKey})
	}
	for _, place := range []string{"r.ns", "r.object", "r.i"} {
		keys = append(keys, key{expression: place, descending: last})
	}
	return keys
}

// groupKeys is the order of groups: that of the question, then their keys.
func (r *run) groupKeys() []key {
	orders := r.question.Sort
	for _, group := range r.question.GroupBy {
		orders = append(slices.Clip(orders), query.Order{By: string(group)})
	}
	var keys []key
	seen := map[string]bool{}
	for _, order := range orders {
		if seen[order.By] {
			continue
		}
		seen[order.By] = true
		keys = append(keys, r.groupKey(order))
	}
	return keys
}

func (r *run) groupKey(order query.Order) key {
	k := key{descending: order.Descending}
	switch query.Aggregate(order.By) {
	case query.Count:
		k.expression = "t.n"
		return k
	case query.CountDistinctResources:
		k.expression = "t.d"
		return k
	case query.MaxScore:
		k.expression, k.holds = "COALESCE(t.m, "+absentScore+")", realKey
		return k
	case query.MeanTimeToFix:
		k.expression = "COALESCE(" + r.meanOfGroup() + ", -1)"
		return k
	case query.New, query.Fixed:
	}
	for i, group := range r.question.GroupBy {
		if string(group) != order.By {
			continue
		}
		k.expression = fmt.Sprintf("t.g%d", i)
		switch c, _ := r.plan.columnOf(group); c.storage {
		case named:
			k.expression, k.holds = r.dialect.bytewise(fmt.Sprintf("COALESCE(k%d.s, '')", i)), textKey
		case plain:
			k.expression, k.holds = r.dialect.bytewise(k.expression), textKey
		case rank, code, score, moment, duration, lasted, flag, optionalName, optionalFlag:
		}
	}
	return k
}
