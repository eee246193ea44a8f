// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"github.com/scanyard/scanyard/findings/query"
)

// Plan is the table that answers.
type Plan string

// The plans.
const (
	PlanCounts  Plan = "counts"
	PlanDaily   Plan = "daily"
	PlanResults Plan = "results"
	PlanHistory Plan = "history"
)

// storage is how a column keeps its values.
type storage int

const (
	named        storage = iota // a text, by its number in names; that of the empty text is absent
	plain                       // a text as it is; never absent where it is joined
	rank                        // a severity; 0 is absent
	code                        // a result; 0 is absent
	score                       // a number; NULL is absent
	moment                      // seconds since 1970; NULL is absent
	duration                    // the same as when it began, asked for how long ago that is
	lasted                      // a number of seconds
	flag                        // 0 or 1
	optionalName                // a text, by its number in names; NULL is absent
	optionalFlag                // 0 or 1; NULL is absent
)

// column is a field or a group in a table.
type column struct {
	name    string
	storage storage
	join    bool // objects, which has the column, must be joined
}

// The alias r is the table that answers, o is objects.
var resultsFields = map[query.Field]column{
	query.Namespace:    {name: "r.ns", storage: named},
	query.Source:       {name: "r.source", storage: named},
	query.Policy:       {name: "r.policy", storage: named},
	query.Rule:         {name: "r.rule", storage: named},
	query.Category:     {name: "r.category", storage: named},
	query.SeverityOf:   {name: "r.severity", storage: rank},
	query.ResultOf:     {name: "r.result", storage: code},
	query.CVSS:         {name: "r.score", storage: score},
	query.Timestamp:    {name: "r.ts", storage: moment},
	query.FirstSeen:    {name: "r.first_seen", storage: moment},
	query.OpenFor:      {name: "r.first_seen", storage: duration},
	query.ResourceKind: {name: "r.res_kind", storage: named},
	query.ResourceName: {name: "r.res_name", storage: named},
	query.Report:       {name: "o.name", storage: plain, join: true},
	query.Suppressed:   {name: "r.suppressed", storage: flag},
	query.Exception:    {name: "r.exception", storage: optionalName},

	query.PackageType:    {name: "r.pkg_type", storage: optionalName},
	query.PackageVersion: {name: "r.pkg_version", storage: optionalName},
	query.Fixable:        {name: "r.fixable", storage: optionalFlag},
}

// fieldsOf are the fields that a table has. Those of rollups are columns of results with the same name.
var fieldsOf = map[Plan]map[query.Field]column{
	PlanResults: resultsFields,
	PlanCounts:  only(query.Namespace, query.Policy, query.ResultOf, query.Suppressed),
	PlanDaily:   only(query.Namespace, query.Source, query.SeverityOf, query.ResultOf, query.Suppressed),
	PlanHistory: historyFields,
}

// historyFields are those of the life of a finding at its target, which goes on when its report is gone. It does not say
// what an exception accepts.
var historyFields = map[query.Field]column{
	query.Namespace:  {name: "r.ns", storage: named},
	query.Target:     {name: "r.target", storage: named},
	query.Source:     {name: "r.source", storage: named},
	query.Policy:     {name: "r.policy", storage: named},
	query.Rule:       {name: "r.rule", storage: named},
	query.SeverityOf: {name: "r.severity", storage: rank},
	query.ResultOf:   {name: "r.result", storage: code},
	query.FirstSeen:  {name: "r.first_at", storage: moment},
	query.FixedAt:    {name: "r.fixed_at", storage: moment},
	query.OpenFor:    {name: "(COALESCE(r.fixed_at, ?) - r.first_at)", storage: lasted},
	query.Suppressed: {name: "0", storage: flag},
}

func only(fields ...query.Field) map[query.Field]column {
	some := map[query.Field]column{}
	for _, field := range fields {
		some[field] = resultsFields[field]
	}
	return some
}

var resultsGroups = map[query.Group]column{
	query.ByNamespace:    resultsFields[query.Namespace],
	query.BySeverity:     resultsFields[query.SeverityOf],
	query.ByResult:       resultsFields[query.ResultOf],
	query.ByPolicy:       resultsFields[query.Policy],
	query.ByRule:         resultsFields[query.Rule],
	query.ByCategory:     resultsFields[query.Category],
	query.BySource:       resultsFields[query.Source],
	query.ByDay:          resultsFields[query.Timestamp],
	query.ByFirstSeenDay: resultsFields[query.FirstSeen],
	query.ByResourceKind: resultsFields[query.ResourceKind],
	query.ByResource:     resultsFields[query.ResourceName],
	query.ByDigest:       {name: "COALESCE(o.digest, '')", storage: plain, join: true},
}

// columnOf is a group in a table that has it.
func (p Plan) columnOf(group query.Group) (column, bool) {
	if p == PlanResults {
		return resultsGroups[group], true
	}
	field, ok := map[query.Group]query.Field{
		query.ByNamespace: query.Namespace, query.BySeverity: query.SeverityOf, query.ByResult: query.ResultOf, query.ByPolicy: query.Policy,
		query.ByRule: query.Rule, query.BySource: query.Source, query.ByFirstSeenDay: query.FirstSeen,
	}[group]
	c, has := fieldsOf[p][field]
	return c, ok && has
}
