// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Defaults of an Answerer.
const (
	defaultTimeout     = 10 * time.Second
	defaultMaxSearched = 1_000_000
)

// allNamespaces is what counts has in place of a namespace for the sum over all.
const allNamespaces = 0

// Scope is what who asks may see.
type Scope struct {
	// Cluster is everything. Otherwise Namespace is all.
	Cluster   bool   `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// Input is a question, who asks, and when. Namespaces of the spec narrow a question within its scope.
type Input struct {
	Spec  reportsv1.ClusterFindingQuerySpec
	Scope Scope
	Now   time.Time
}

// InvalidError is a question that cannot be answered as it is. Clients see it as 422.
type InvalidError struct{ Mistakes field.ErrorList }

// Error tells the mistakes.
func (e *InvalidError) Error() string { return e.Mistakes.ToAggregate().Error() }

// TimeoutError is an answer that took too long. Clients see it as 504.
type TimeoutError struct {
	After     time.Duration
	Unindexed []string // terms that no index serves
}

// Error tells what took long.
func (e *TimeoutError) Error() string {
	if len(e.Unindexed) == 0 {
		return fmt.Sprintf("no answer within %s: narrow the question", e.After)
	}
	return fmt.Sprintf("no answer within %s: no index serves %s", e.After, strings.Join(e.Unindexed, ", "))
}

// Check reads a question without answering it. Errors are *InvalidError.
func Check(input *Input) error {
	_, _, err := read(input)
	return err
}

// RightUntil is until when the answer to a question stays right if nothing is written: one that looks back from now is right for now only, and a
// trend until the day ends.
func RightUntil(input *Input) time.Time {
	q, _, err := read(input)
	looksBack := func(t query.Term) bool { return t.Field == query.OpenFor }
	switch {
	case err != nil, input.Spec.Since != nil, slices.ContainsFunc(termsOf(q.Where), looksBack):
		return input.Now
	case q.TrendDays > 0:
		return input.Now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return input.Now.AddDate(1, 0, 0)
}

// NamesMoments tells whether a question compares with moments that it names: who asks it later, about as long ago, asks another one.
func NamesMoments(input *Input) bool {
	named := *input
	named.Spec.Since = nil // which looks back from whenever it is asked
	q, _, err := read(&named)
	return err != nil || slices.ContainsFunc(termsOf(q.Where), func(t query.Term) bool {
		return t.Field == query.Timestamp || t.Field == query.FirstSeen || t.Field == query.FixedAt
	})
}

// At is an earlier answer as it is at a time: what is open has been open for longer.
func At(status *reportsv1.FindingQueryStatus, now time.Time) *reportsv1.FindingQueryStatus {
	if len(status.Rows) == 0 {
		return status
	}
	at := *status
	at.Rows = slices.Clone(status.Rows)
	for i := range at.Rows {
		row := &at.Rows[i]
		row.OpenFor = openFor(row, time.Unix(now.Unix(), 0))
	}
	return &at
}

// openFor is how long a finding has been there at a time, or was until it was fixed; nil where nothing says since when.
func openFor(row *reportsv1.FindingRow, now time.Time) *metav1.Duration {
	if row.FirstSeen == nil {
		return nil
	}
	if row.FixedAt != nil {
		now = row.FixedAt.Time
	}
	return &metav1.Duration{Duration: now.Sub(row.FirstSeen.Time)}
}

// read returns the question as of the time of its first page, and the token of the page before.
func read(input *Input) (*query.Question, token, error) {
	page := token{Now: input.Now.Unix()}
	path := field.NewPath("spec")
	hash, err := hashOf(&input.Spec, input.Scope)
	if err != nil {
		return nil, page, err
	}
	page.Question = hash
	if input.Spec.Continue != "" {
		if page, err = decodeToken(input.Spec.Continue, hash); err != nil {
			return nil, page, &InvalidError{field.ErrorList{field.Invalid(path.Child("continue"), input.Spec.Continue, err.Error())}}
		}
	}
	q, mistakes := query.Clusterwide(&reportsv1.ClusterFindingQuery{Spec: input.Spec}, time.Unix(page.Now, 0).UTC())
	if len(mistakes) == 0 {
		if planOf(q) == PlanHistory && !q.IsGrouped() && len(input.Spec.Sort) == 0 { // lives have no scores
			q.Sort = []query.Order{{By: string(query.SeverityOf), Descending: true}, {By: string(query.FixedAt), Descending: true}}
		}
		mistakes = unanswerable(q, path)
	}
	if len(mistakes) > 0 {
		return nil, page, &InvalidError{mistakes}
	}
	return q, page, nil
}

// unanswerable refuses what the tables do not tell.
func unanswerable(q *query.Question, path *field.Path) (mistakes field.ErrorList) {
	plan := planOf(q)
	for _, t := range termsOf(q.Where) {
		if _, ok := fieldsOf[plan][t.Field]; !ok {
			mistakes = append(
				mistakes,
				field.Invalid(path.Child("filter"), t.String(), fmt.Sprintf("%s must not be asked for here: only %s", t.Field, strings.Join(fieldNames(plan), ", "))),
			)
		}
	}
	if q.TrendDays > 0 && len(q.Kinds) > 0 {
		mistakes = append(mistakes, field.Forbidden(path.Child("kinds"), "must be absent beside trend, which counts all kinds together"))
	}
	if !q.IsGrouped() {
		for i, order := range q.Sort {
			if c, ok := fieldsOf[plan][query.Field(order.By)]; !ok || c.storage == lasted {
				mistakes = append(mistakes, field.NotSupported(path.Child("sort").Index(i).Child("field"), order.By, fieldNames(plan)))
			}
		}
	}
	for i, group := range q.GroupBy {
		if _, ok := plan.columnOf(group); !ok {
			mistakes = append(mistakes, field.Invalid(path.Child("groupBy").Index(i), group, fmt.Sprintf("must not stand beside %s", q.Aggregate)))
		}
	}
	if plan == PlanHistory && len(q.Kinds) > 0 {
		mistakes = append(mistakes, field.Forbidden(path.Child("kinds"), "must be absent where the lives of findings are asked for, which all kinds share"))
	}
	return mistakes
}

func fieldNames(plan Plan) []string {
	var names []string
	for _, name := range query.Fields {
		if _, ok := fieldsOf[plan][name]; ok {
			names = append(names, string(name))
		}
	}
	return names
}

// run is one answer.
type run struct {
	question *query.Question
	dialect  dialect
	kinds    []Kind
	searched int64
	image    int64
	details  func(ctx context.Context, tx *sqldb.Tx, rows []Place) ([]Detail, error)
	plan     Plan
	within   bound
	where    sqlText
	compiler compiler
	page     token
	after    []any // values of the last row of the page before
	tx       *sqldb.Tx
	status   reportsv1.FindingQueryStatus
}

// Database gives out snapshots.
type Database interface {
	// Query runs fn in a snapshot and returns its error.
	Query(ctx context.Context, fn func(*sqldb.Tx) error) error
}

// Kind is a kind of objects that have results.
type Kind struct {
	Number int64  // in objects.kind
	Name   string // as answers show it
	Word   string // of spec.kinds
}

// Place is a result: the number of its object in the database, and its place in the object.
type Place struct {
	Object int64
	Index  int
}

// Detail is what a row has from its object.
type Detail struct {
	Message, Target, Image string
	Layer                  *reportsv1.FindingLayer
}

// Answerer answers questions.
type Answerer struct {
	Database Database
	Driver   sqldb.Driver
	Kinds    []Kind
	// Image is the number of the kind of images in subjects, which says what images vulnerability reports are about.
	Image int64
	// Details fills in what the tables do not have of rows: messages, targets. Nil leaves these empty.
	Details func(ctx context.Context, tx *sqldb.Tx, rows []Place) ([]Detail, error)
	// Aliases are the identifiers under which findings are kept that have an identifier as an alias. Nil knows none.
	Aliases func(ctx context.Context, id string) ([]string, error)
	// Timeout bounds one answer. Default 10 seconds.
	Timeout time.Duration
	// MaxSearched is how many results are searched for a text within another one when no other term narrows them. Default
	// 1,000,000.
	MaxSearched int64
}

// Answer answers a question. Errors are *InvalidError, *TimeoutError and those of the database. TookMillis is left to
// who has a clock.
func (a *Answerer) Answer(ctx context.Context, input *Input) (*reportsv1.FindingQueryStatus, error) {
	question, page, err := read(input)
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(a.Timeout, defaultTimeout)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := a.name(bounded, question, input.Spec.Vulnerability); err != nil {
		return nil, err
	}
	r := &run{
		question: question, dialect: dialect{a.Driver}, kinds: a.Kinds, image: a.Image, searched: cmp.Or(a.MaxSearched, defaultMaxSearched), details: a.Details,
		plan: planOf(question), page: page,
	}
	var invalid *InvalidError
	err = a.Database.Query(bounded, func(tx *sqldb.Tx) error {
		r.tx = tx
		err := r.answer(bounded, input.Scope)
		if errors.As(err, &invalid) {
			return nil // which is not an error of the database
		}
		return err
	})
	if invalid != nil {
		return nil, invalid
	}
	if err == nil {
		return &r.status, nil
	}
	if ctx.Err() == nil && bounded.Err() != nil {
		return nil, &TimeoutError{After: timeout, Unindexed: unindexed(question)}
	}
	return nil, err
}

// name has a question for a vulnerability ask for its other identifiers, too.
func (a *Answerer) name(ctx context.Context, q *query.Question, id string) error {
	if a.Aliases == nil || id == "" {
		return nil
	}
	names, err := a.Aliases(ctx, id)
	if err != nil || len(names) == 0 {
		return err
	}
	values := []query.Value{{Text: id}}
	for _, name := range names {
		values = append(values, query.Value{Text: name})
	}
	asked := query.Term{Field: query.Policy, Op: query.Equal, Values: values[:1]}
	either := query.Term{Field: query.Policy, Op: query.In, Values: values}
	if parts, is := q.Where.(query.And); is {
		for i := range parts {
			if reflect.DeepEqual(parts[i], query.Node(asked)) {
				parts[i] = either
			}
		}
	} else if reflect.DeepEqual(q.Where, query.Node(asked)) {
		q.Where = either
	}
	return nil
}

func (r *run) answer(ctx context.Context, scope Scope) error {
	var revision int64
	if err := r.tx.QueryRow(ctx, "SELECT v FROM meta WHERE k = 'rv'").Scan(&revision); err != nil {
		return fmt.Errorf("read the counter: %w", err)
	}
	r.status.AsOf, r.status.Plan = strconv.FormatInt(revision, 10), string(r.plan)
	if err := r.prepare(ctx, scope); err != nil {
		return err
	}
	if err := r.checkSearch(ctx); err != nil {
		return err
	}
	switch {
	case r.question.TrendDays > 0:
		return r.trend(ctx)
	case r.question.IsGrouped():
		return errors.Join(r.groups(ctx), r.total(ctx))
	case r.plan == PlanHistory:
		return errors.Join(r.lives(ctx), r.total(ctx))
	default:
		return errors.Join(r.rows(ctx), r.total(ctx))
	}
}

// prepare looks up the texts of the question, and makes the condition that all its statements share.
func (r *run) prepare(ctx context.Context, scope Scope) error {
	texts := append([]string{"", scope.Namespace}, r.question.Namespaces...)
	for _, t := range termsOf(r.question.Where) {
		for _, value := range t.Values {
			texts = append(texts, value.Text)
		}
	}
	ids, err := r.lookUp(ctx, texts)
	if err != nil {
		return err
	}
	having, err := r.lookThrough(ctx)
	if err != nil {
		return err
	}
	r.compiler = compiler{
		dialect: r.dialect, fields: fieldsOf[r.plan], ids: ids, empty: ids[""], having: having, now: time.Unix(r.page.Now, 0).UTC(),
	}
	r.within = boundOf(r.question, scope, ids)
	conditions := []sqlText{r.bounds(), r.compiler.condition(r.question.Where, true)}
	if len(r.question.Kinds) > 0 {
		conditions = append(conditions, in("o.kind", r.kindNumbers()))
	}
	if r.question.Images != nil {
		conditions = append(conditions, r.ofImages())
	}
	if r.question.VersionRange != "" {
		versions, err := r.ofVersions(ctx)
		if err != nil {
			return err
		}
		conditions = append(conditions, versions)
	}
	if r.plan == PlanDaily && r.question.TrendDays == 0 {
		conditions = append(conditions, piece("r.day = (SELECT MAX(day) FROM daily)"))
	}
	r.where = all(conditions)
	return nil
}

// kindNumbers are those of the kinds that the question is about.
func (r *run) kindNumbers() (numbers []int64) {
	for _, kind := range r.kinds {
		if slices.Contains(r.question.Kinds, kind.Word) {
			numbers = append(numbers, kind.Number)
		}
	}
	return numbers
}

// boundOf is the part of the scope that the question is about.
func boundOf(q *query.Question, scope Scope, ids map[string]int64) bound {
	asked := q.Namespaces
	if !scope.Cluster {
		if len(asked) > 0 && !slices.Contains(asked, scope.Namespace) {
			return bound{}
		}
		asked = []string{scope.Namespace}
	}
	if len(asked) == 0 {
		return bound{all: true}
	}
	var within bound
	for _, name := range asked {
		if id, ok := ids[name]; ok && name != "" {
			within.ids = append(within.ids, id)
		}
	}
	return within
}

// bounds is the condition that keeps a statement within the scope. Where the question is about namespaces and no other
// term has an index, all values of the columns before ns in the index of severities are listed, so that it serves the
// namespace.
func (r *run) bounds() sqlText {
	var conditions []sqlText
	switch {
	case !r.within.all:
		conditions = append(conditions, in("r.ns", r.within.ids))
	case requires(r.question, query.Namespace, query.Equal, query.In):
		conditions = append(conditions, r.everywhere())
	default:
		return r.everywhere()
	}
	if r.plan == PlanResults && !requires(r.question, query.Policy, query.Equal, query.In) && !requires(r.question, query.Rule, query.Equal, query.In) &&
		!requires(r.question, query.CVSS) {
		if !requires(r.question, query.SeverityOf) {
			conditions = append(conditions, in("r.severity", upTo(severities)))
		}
		if !requires(r.question, query.ResultOf) {
			conditions = append(conditions, in("r.result", upTo(results)))
		}
	}
	return all(conditions)
}

// everywhere is the condition of a statement that no namespace bounds: counts has the whole cluster beside its namespaces.
func (r *run) everywhere() sqlText {
	if r.plan != PlanCounts {
		return always
	}
	apart := slices.Contains(r.question.GroupBy, query.ByNamespace) ||
		slices.ContainsFunc(termsOf(r.question.Where), func(t query.Term) bool { return t.Field == query.Namespace })
	if apart {
		return piece("r.ns <> ?", allNamespaces)
	}
	return piece("r.ns = ?", allNamespaces)
}

func upTo(n int64) (numbers []int64) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// lookUp returns the numbers of those texts that the dictionary has.
func (r *run) lookUp(ctx context.Context, texts []string) (map[string]int64, error) {
	textOf := map[string]string{}
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		textOf[hex.EncodeToString(sum[:])] = text
	}
	ids := map[string]int64{}
	var sums []string
	for sum := range textOf {
		sums = append(sums, sum)
	}
	for part := range slices.Chunk(sums, 500) {
		err := r.each(ctx, concat(piece("SELECT sha, id FROM names WHERE "), in("sha", part)), func(scan func(...any) error) error {
			var sum string
			var id int64
			if err := scan(&sum, &id); err != nil {
				return err
			}
			ids[textOf[sum]] = id
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look up the texts: %w", err)
		}
	}
	return ids, nil
}

// fewNames is how many texts of the dictionary may have a part, so that a statement names them: then an index serves it, and a part that no
// text has is answered without any row.
const fewNames = 200

// lookThrough returns the numbers of the texts that have the parts which the question asks for, of parts that few have.
func (r *run) lookThrough(ctx context.Context) (map[part][]int64, error) {
	having := map[part][]int64{}
	for _, t := range termsOf(r.question.Where) {
		if fieldsOf[r.plan][t.Field].storage != named || t.Op != query.Contains && t.Op != query.StartsWith {
			continue
		}
		of := part{t.Op, t.Values[0].Text}
		if _, known := having[of]; known {
			continue
		}
		var ids []int64
		statement := concat(piece("SELECT id FROM names WHERE "), of.inDictionary(r.dialect), piece(" LIMIT ?", fewNames+1))
		err := r.each(ctx, statement, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look through the texts: %w", err)
		}
		if len(ids) <= fewNames {
			having[of] = ids
		}
	}
	return having, nil
}

// objects is the join that the question needs.
func (r *run) objects() string {
	needed := len(r.question.Kinds) > 0
	for _, t := range termsOf(r.question.Where) {
		needed = needed || r.compiler.fields[t.Field].join
	}
	for _, group := range r.question.GroupBy {
		c, _ := r.plan.columnOf(group)
		needed = needed || c.join
	}
	for _, order := range r.question.Sort {
		needed = needed || r.compiler.fields[query.Field(order.By)].join
	}
	if needed && r.plan == PlanResults {
		return " JOIN objects o ON o.id = r.object"
	}
	return ""
}

// checkSearch refuses to search many results for a text within another one.
func (r *run) checkSearch(ctx context.Context) error {
	if r.plan != PlanResults || isIndexed(r.question, r.within) || requires(r.question, query.FirstSeen) ||
		!slices.ContainsFunc(termsOf(r.question.Where), func(t query.Term) bool { return t.Op == query.Contains }) {
		return nil
	}
	var n int64
	statement := piece("SELECT COUNT(*) FROM (SELECT 1 AS one FROM results LIMIT ?) t", r.searched+1)
	if err := r.tx.QueryRow(ctx, statement.text, statement.args...).Scan(&n); err != nil {
		return fmt.Errorf("count the results: %w", err)
	}
	if n <= r.searched {
		return nil
	}
	return &InvalidError{field.ErrorList{field.Invalid(field.NewPath("spec", "filter"), "contains", "needs policy, severity, cvss, namespace or since beside it")}}
}

// total counts what the question is about, exactly as long as there are not many.
func (r *run) total(ctx context.Context) error {
	statement := concat(piece("SELECT COUNT(*) FROM (SELECT 1 AS one FROM results r"+r.objects()+" WHERE "), r.where, piece(" LIMIT ?) t", query.MaxExactTotal+1))
	switch r.plan {
	case PlanResults:
	case PlanHistory:
		statement = concat(piece("SELECT COUNT(*) FROM (SELECT 1 AS one FROM history r WHERE "), r.where, piece(" LIMIT ?) t", query.MaxExactTotal+1))
	default:
		statement = concat(piece("SELECT COALESCE("+r.dialect.integer("SUM(r.n)")+", 0) FROM "+string(r.plan)+" r WHERE "), r.where)
	}
	var n int64
	if err := r.tx.QueryRow(ctx, statement.text, statement.args...).Scan(&n); err != nil {
		return fmt.Errorf("count the answer: %w", err)
	}
	if n > query.MaxExactTotal {
		r.status.TotalAtLeast = new(int64(query.MaxExactTotal))
	} else {
		r.status.Total = &n
	}
	return nil
}

// place checks the values that the token names against the keys of the order.
func (r *run) place(keys []key) error {
	invalid := &InvalidError{field.ErrorList{field.Invalid(field.NewPath("spec", "continue"), "", errToken.Error())}}
	if len(r.page.After) == 0 {
		return nil
	}
	if len(r.page.After) != len(keys) {
		return invalid
	}
	for i, k := range keys {
		value, ok := k.fits(r.page.After[i])
		if !ok {
			return invalid
		}
		r.after = append(r.after, value)
	}
	return nil
}

// next notes that there is a page behind a row with the given keys.
func (r *run) next(last []any) error {
	after := make([]any, 0, len(last))
	for _, value := range last {
		switch value := value.(type) {
		case *string:
			after = append(after, *value)
		case *float64:
			after = append(after, *value)
		case *int64:
			after = append(after, *value)
		}
	}
	text, err := token{Question: r.page.Question, Now: r.page.Now, After: after}.encode()
	r.status.Continue = text
	return err
}

// each calls fn for each row of a statement.
func (r *run) each(ctx context.Context, statement sqlText, fn func(scan func(...any) error) error) (err error) {
	rows, err := r.tx.Query(ctx, statement.text, statement.args...)
	if err != nil {
		return fmt.Errorf("ask %s: %w", r.plan, err)
	}
	defer func(rows *sql.Rows) { err = errors.Join(err, rows.Close()) }(rows)
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
