// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"slices"

	"github.com/scanyard/scanyard/findings/query"
)

// bound is the namespaces that an answer is made of. Empty and not all: none.
type bound struct {
	all bool
	ids []int64
}

// planOf chooses the table that answers a question: the smallest that knows all of it.
func planOf(q *query.Question) Plan {
	if q.TrendDays > 0 {
		return PlanDaily
	}
	if q.Aggregate == query.MeanTimeToFix || !q.IsGrouped() && asksOfLives(q) {
		return PlanHistory
	}
	if q.Aggregate != query.Count || len(q.Kinds) > 0 {
		return PlanResults
	}
	for _, plan := range []Plan{PlanCounts, PlanDaily, PlanResults, PlanHistory} {
		if plan.answers(q) {
			return plan
		}
	}
	return PlanResults
}

// asksOfLives tells whether findings are asked for by what only their lives know: reports do not hold what was fixed.
func asksOfLives(q *query.Question) bool {
	return slices.ContainsFunc(termsOf(q.Where), func(t query.Term) bool { return t.Field == query.FixedAt || t.Field == query.Target })
}

// answers tells whether a rollup has all fields and groups of a question.
func (p Plan) answers(q *query.Question) bool {
	for _, group := range q.GroupBy {
		if _, ok := p.columnOf(group); !ok {
			return false
		}
	}
	return !slices.ContainsFunc(termsOf(q.Where), func(t query.Term) bool { _, ok := fieldsOf[p][t.Field]; return !ok })
}

// termsOf are all terms of an expression.
func termsOf(node query.Node) (terms []query.Term) {
	switch node := node.(type) {
	case query.And:
		for _, part := range node {
			terms = append(terms, termsOf(part)...)
		}
	case query.Or:
		for _, part := range node {
			terms = append(terms, termsOf(part)...)
		}
	case query.Not:
		return termsOf(node.Of)
	case query.Term:
		return []query.Term{node}
	}
	return terms
}

// required are the terms that must hold for every row of an answer.
func required(node query.Node) (terms []query.Term) {
	switch node := node.(type) {
	case query.And:
		for _, part := range node {
			terms = append(terms, required(part)...)
		}
	case query.Term:
		return []query.Term{node}
	}
	return terms
}

func requires(q *query.Question, field query.Field, ops ...query.Op) bool {
	return slices.ContainsFunc(required(q.Where), func(t query.Term) bool {
		return t.Field == field && (len(ops) == 0 || slices.Contains(ops, t.Op))
	})
}

// isIndexed tells whether an index of results bounds the rows that have to be read for a question.
func isIndexed(q *query.Question, within bound) bool {
	return !within.all || requires(q, query.Policy, query.Equal, query.In, query.StartsWith) || requires(q, query.Rule, query.Equal, query.In) ||
		requires(q, query.SeverityOf) || requires(q, query.CVSS) || requires(q, query.Namespace, query.Equal, query.In)
}

// unindexed are the terms that no index serves.
func unindexed(q *query.Question) (terms []string) {
	for _, t := range termsOf(q.Where) {
		if served := []query.Field{
			query.Policy, query.Rule, query.SeverityOf, query.CVSS, query.Namespace, query.Suppressed,
		}; !slices.Contains(served, t.Field) ||
			t.Op == query.Contains {
			terms = append(terms, t.String())
		}
	}
	return terms
}
