// SPDX-License-Identifier: Apache-2.0

// Package rows keeps what is asked of results beside the objects that hold them: a row for each result, counts, the course
// of each day, and the life of each finding at its target.
//
//	Set (what a report holds) ─► Indexer ─► names ─► results
//	rows of the state before ──────┘    └─► differences ─► counts, daily
//	                                    └─► first_seen, history, run_parts
//
// What it decides:
//
//   - Rows are written in the transaction of their object. An object without its rows, or rows without their object,
//     cannot exist.
//   - Counts are changed by the difference between the state before and the new one, so a report that is replaced by an
//     equal one changes nothing.
//   - A finding is known by its fingerprint: source, policy, rule and resource. What is said of it may change.
//   - A finding is fixed when all parts of a later run of the same target have been seen and none holds it. A report that
//     does not say which run it is of, or how many parts that has, fixes nothing; neither does a deletion.
//   - Texts are numbers of a dictionary. Numbers are given while the counter is locked.
//   - The package knows no kind of objects: who does makes a Set.
package rows

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Severity is the rank of a severity.
type Severity int

// Severities, in their order.
const (
	NoSeverity Severity = iota
	Info
	Low
	Medium
	High
	Critical
)

// Result is what a policy said.
type Result int

// Results, as the database keeps them.
const (
	NoResult Result = iota
	Pass
	Fail
	Warn
	Error
	Skip
)

// Row is one result.
type Row struct {
	Source, Policy, Rule, Category                string
	Severity                                      Severity
	Result                                        Result
	Score                                         *float64 // 0 to 10
	Time                                          time.Time
	ResourceKind, ResourceNamespace, ResourceName string
	// Exception is the exception that matches the finding, as KIND/NAME; "" if none does. Suppressed says that the finding
	// counts no longer.
	Exception  string
	Suppressed bool
	// Known is what the finding is known by, in hexadecimal digits, where that is not source, policy, rule and resource.
	Known string
	// Package is the package that has a vulnerability; nil for what is about none.
	Package *Package
	// Copied says that the finding is a row of another object. It has none here, and keeps its place.
	Copied bool
}

// Package is what is asked of an installed package. Its name is the rule of its row.
type Package struct {
	Type, Version string
	// Fixable says that a newer version fixes what was found.
	Fixable bool
}

// Set is what an object holds.
type Set struct {
	// Namespace is that of the object; "" for the cluster.
	Namespace string
	// Target is what was looked at; "" if the object does not say.
	Target string
	// Source is whose findings a run of the target has: those of others it says nothing about. "" is all.
	Source string
	// Run is the run that found the rows, and Part of Parts which part of it the object is; Parts is 0 if the run is not
	// complete, or does not say.
	Run         string
	Part, Parts int
	Rows        []Row
}

// Whole makes the set the whole of a run, which is known by what was found: the same findings again are the same run.
func (s *Set) Whole() {
	prints := make([]string, 0, len(s.Rows))
	for i := range s.Rows {
		prints = append(prints, s.Rows[i].Fingerprint())
	}
	slices.Sort(prints)
	sum := sha256.Sum256([]byte(strings.Join(prints, "")))
	s.Run, s.Part, s.Parts = hex.EncodeToString(sum[:]), 0, 1
}

// FingerprintLength is how many digits of a fingerprint the tables keep.
const FingerprintLength = 32

// Fingerprint is what a finding is known by, as 32 hexadecimal digits.
func (r *Row) Fingerprint() string {
	if len(r.Known) >= FingerprintLength {
		return r.Known[:FingerprintLength]
	}
	return r.derived()
}

// derived is the fingerprint that follows from what the row holds.
func (r *Row) derived() string {
	parts := []string{r.Source, r.Policy, r.Rule, r.ResourceKind, r.ResourceNamespace, r.ResourceName}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x1f")))
	return hex.EncodeToString(sum[:16])
}

// Indexer returns what writes the rows of a set in the transaction of its object.
func (s *Set) Indexer() mvcc.Indexer {
	return func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
		return s.index(ctx, tx, object, at)
	}
}

// Drop removes the rows of an object that is deleted.
func Drop(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
	return (&Set{}).index(ctx, tx, object, at)
}

var _ mvcc.Indexer = Drop

// stored is a row with its texts as numbers.
type stored struct {
	group
	policy, rule, category, resKind, resNamespace, resName int64
	exception, pkgType, pkgVersion, fixable                sql.NullInt64
	fingerprint                                            string
	// place of the row in its list.
	place int
	row   *Row
}

// group is what rows are counted by.
type group struct {
	source     int64
	severity   Severity
	result     Result
	suppressed int
}

// counted is what policies are counted by.
type counted struct {
	policy     int64
	result     Result
	suppressed int
}

func (c counted) compare(other counted) int {
	return cmp.Or(cmp.Compare(c.policy, other.policy), cmp.Compare(c.result, other.result), cmp.Compare(c.suppressed, other.suppressed))
}

func (s *Set) index(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
	before, ns, err := readBefore(ctx, tx, object)
	if err != nil {
		return fmt.Errorf("read the rows before: %w", err)
	}
	if len(before) == 0 && len(s.Rows) == 0 && s.Target == "" {
		return nil
	}
	numbers, err := numbersOf(ctx, tx, s.texts())
	if err != nil {
		return fmt.Errorf("number the texts: %w", err)
	}
	if len(s.Rows) > 0 || s.Target != "" {
		ns = numbers[s.Namespace]
	}
	after := s.numbered(numbers)
	if len(before) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM results WHERE object = ?`, object); err != nil {
			return fmt.Errorf("delete the rows before: %w", err)
		}
	}
	seen, err := see(ctx, tx, ns, after, at)
	if err != nil {
		return fmt.Errorf("note what was seen: %w", err)
	}
	if err := insertRows(ctx, tx, object, ns, after, seen); err != nil {
		return fmt.Errorf("insert the rows: %w", err)
	}
	if err := count(ctx, tx, ns, before, after); err != nil {
		return fmt.Errorf("count the rows: %w", err)
	}
	days, err := openDay(ctx, tx, at)
	if err != nil {
		return fmt.Errorf("begin the day: %w", err)
	}
	course := map[group]*course{}
	countCourse(course, before, after)
	if s.Target != "" {
		to := aim{ns: ns, target: numbers[s.Target]}
		if s.Source != "" {
			to.source = numbers[s.Source]
		}
		if err := s.follow(ctx, tx, to, after, at, course); err != nil {
			return fmt.Errorf("follow the findings: %w", err)
		}
	}
	return addCourse(ctx, tx, days, ns, course)
}

// texts are those that need a number.
func (s *Set) texts() []string {
	texts := []string{s.Namespace}
	if s.Target != "" {
		texts = append(texts, s.Target)
	}
	if s.Source != "" {
		texts = append(texts, s.Source)
	}
	for i := range s.Rows {
		row := &s.Rows[i]
		texts = append(texts, row.Source, row.Policy, row.Rule, row.Category, row.ResourceKind, row.ResourceNamespace, row.ResourceName)
		if row.Exception != "" {
			texts = append(texts, row.Exception)
		}
		if row.Package != nil {
			texts = append(texts, row.Package.texts()...)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// numbered returns the rows in the order of their policies, in which the index is cheapest to fill.
func (s *Set) numbered(numbers map[string]int64) []stored {
	found := make([]stored, 0, len(s.Rows))
	for i := range s.Rows {
		row := &s.Rows[i]
		if row.Copied {
			continue
		}
		suppressed := 0
		if row.Suppressed {
			suppressed = 1
		}
		pkgType, pkgVersion, fixable := row.Package.columns(numbers)
		found = append(found, stored{
			group:  group{source: numbers[row.Source], severity: row.Severity, result: row.Result, suppressed: suppressed},
			policy: numbers[row.Policy], rule: numbers[row.Rule], category: numbers[row.Category], resKind: numbers[row.ResourceKind],
			resNamespace: numbers[row.ResourceNamespace], resName: numbers[row.ResourceName], fingerprint: row.Fingerprint(), place: i, row: row,
			exception: sql.NullInt64{Int64: numbers[row.Exception], Valid: row.Exception != ""},
			pkgType:   pkgType, pkgVersion: pkgVersion, fixable: fixable,
		})
	}
	return found
}
