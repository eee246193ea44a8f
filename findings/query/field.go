// SPDX-License-Identifier: Apache-2.0

package query

import "slices"

// Type is the type of a field's values.
type Type int

// The types.
const (
	Text     Type = iota // a text, compared byte by byte
	Severity             // one of the severities, compared by rank
	Result               // one of the results
	Number               // a number
	Time                 // a moment
	Duration             // a length of time
	Flag                 // true or false
)

// Field is a field of a finding in expressions and orders.
type Field string

// The fields.
const (
	Namespace    Field = "namespace"
	Source       Field = "source"
	Policy       Field = "policy"
	Rule         Field = "rule"
	Category     Field = "category"
	SeverityOf   Field = "severity"
	ResultOf     Field = "result"
	CVSS         Field = "cvss"
	Timestamp    Field = "timestamp"
	FirstSeen    Field = "firstSeen"
	FixedAt      Field = "fixedAt"
	OpenFor      Field = "openFor"
	Target       Field = "target"
	ResourceKind Field = "resource.kind"
	ResourceName Field = "resource.name"
	Report       Field = "report"
	Suppressed   Field = "suppressed"
	Exception    Field = "exception"

	PackageType    Field = "package.type"    // this and what follows only findings of images have
	PackageVersion Field = "package.version" // of the installed package; a text
	Fixable        Field = "fixable"
)

// Fields are all fields, in the order of the reference.
var Fields = []Field{
	Namespace, Source, Policy, Rule, Category, SeverityOf, ResultOf, CVSS, Timestamp, FirstSeen, FixedAt, OpenFor, Target,
	ResourceKind, ResourceName, Report, Suppressed, Exception, PackageType, PackageVersion, Fixable,
}

// Type returns the type of the field's values.
func (f Field) Type() Type {
	switch f {
	case SeverityOf:
		return Severity
	case ResultOf:
		return Result
	case CVSS:
		return Number
	case Timestamp, FirstSeen, FixedAt:
		return Time
	case OpenFor:
		return Duration
	case Suppressed, Fixable:
		return Flag
	default:
		return Text
	}
}

func (f Field) isKnown() bool { return slices.Contains(Fields, f) }

// Op is what a Term asks about a field.
type Op string

// The operators.
const (
	Equal        Op = "=="
	NotEqual     Op = "!="
	Less         Op = "<"
	LessEqual    Op = "<="
	Greater      Op = ">"
	GreaterEqual Op = ">="
	In           Op = "in"
	StartsWith   Op = "startsWith"
	Contains     Op = "contains"
	Has          Op = "has"
)

var opsOfType = map[Type][]Op{
	Text:     {Equal, NotEqual, In, StartsWith, Contains, Has},
	Severity: {Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, Has},
	Result:   {Equal, NotEqual, In, Has},
	Number:   {Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, Has},
	Time:     {Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, Has},
	Duration: {Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, Has},
	Flag:     {Equal, NotEqual},
}

// Ops returns the operators that the field has.
func (f Field) Ops() []Op { return opsOfType[f.Type()] }

// severities are in the order of their rank; the first is for a finding without one.
var severities = []string{"", "info", "low", "medium", "high", "critical"}

// results are in the order in which databases number them; the first is for a finding without one.
var results = []string{"", "pass", "fail", "warn", "error", "skip"}

// Rank returns the rank of a severity: critical 5 to info 1, 0 if it is absent or another word.
func Rank(severity string) int { return max(slices.Index(severities, severity), 0) }

// SeverityOfRank returns the severity of a rank, "" for 0 and an invalid rank.
func SeverityOfRank(rank int) string { return at(severities, rank) }

// Code returns the number of a result: pass 1, fail 2, warn 3, error 4, skip 5, 0 if it is absent or another word.
func Code(result string) int { return max(slices.Index(results, result), 0) }

// ResultOfCode returns the result of a number, "" for 0 and an invalid number.
func ResultOfCode(code int) string { return at(results, code) }

func at(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return words[i]
}
