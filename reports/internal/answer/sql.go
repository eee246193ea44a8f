// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"slices"
	"strings"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// sqlText is a piece of SQL with its parameters. Its text is made of constants of this package only.
type sqlText struct {
	text string
	args []any
}

func piece(text string, args ...any) sqlText { return sqlText{text: text, args: args} }

// concat puts pieces behind each other.
func concat(pieces ...sqlText) (all sqlText) {
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(p.text)
		all.args = append(all.args, p.args...)
	}
	all.text = text.String()
	return all
}

// separated puts pieces behind each other, with a text between them.
func separated(between string, pieces []sqlText) sqlText {
	var all []sqlText
	for i, p := range pieces {
		if i > 0 {
			all = append(all, piece(between))
		}
		all = append(all, p)
	}
	return concat(all...)
}

func parenthesised(p sqlText) sqlText { return sqlText{text: "(" + p.text + ")", args: p.args} }

var (
	always = piece("1 = 1")
	never  = piece("1 = 0")
)

// all is what holds if every piece does.
func all(pieces []sqlText) sqlText { return combined(" AND ", always, pieces) }

// anyOf is what holds if one piece does.
func anyOf(pieces []sqlText) sqlText {
	possible := slices.DeleteFunc(slices.Clone(pieces), func(p sqlText) bool { return p.text == never.text })
	return combined(" OR ", never, possible)
}

func combined(between string, none sqlText, pieces []sqlText) sqlText {
	switch len(pieces) {
	case 0:
		return none
	case 1:
		return pieces[0]
	}
	return parenthesised(separated(between, pieces))
}

// in is a column that has one of some values.
func in[T any](column string, values []T) sqlText {
	if len(values) == 0 {
		return never
	}
	args := make([]any, 0, len(values))
	for _, value := range values {
		args = append(args, value)
	}
	if len(values) == 1 {
		return piece(column+" = ?", args...)
	}
	return piece(column+" IN ("+marks(len(values))+")", args...)
}

func notIn[T any](column string, values []T) sqlText {
	p := in(column, values)
	return sqlText{text: "NOT (" + p.text + ")", args: p.args}
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// dialect is what differs between databases.
type dialect struct{ driver sqldb.Driver }

const likeEscape = "~"

var likeEscaped = strings.NewReplacer(likeEscape, likeEscape+likeEscape, "%", likeEscape+"%", "_", likeEscape+"_")

// startsWith is a text that begins with another one, byte by byte.
func (d dialect) startsWith(column, text string) sqlText {
	if d.driver == sqldb.SQLite { // whose LIKE knows no case
		return piece("substr("+column+", 1, length(?)) = ?", text, text)
	}
	return d.like(column, likeEscaped.Replace(text)+"%")
}

// contains is a text that holds another one, byte by byte.
func (d dialect) contains(column, text string) sqlText {
	if d.driver == sqldb.SQLite {
		return piece("instr("+column+", ?) > 0", text)
	}
	return d.like(column, "%"+likeEscaped.Replace(text)+"%")
}

func (d dialect) like(column, pattern string) sqlText {
	return piece(d.bytewise(column)+" LIKE ? ESCAPE '"+likeEscape+"'", pattern)
}

// bytewise is a text that is compared and ordered by its bytes.
func (d dialect) bytewise(column string) string {
	if d.driver == sqldb.PostgreSQL {
		return column + ` COLLATE "C"`
	}
	return column
}

// integer is a sum as a number of 64 bits.
func (d dialect) integer(expression string) string {
	if d.driver == sqldb.MySQL {
		return "CAST(" + expression + " AS SIGNED)"
	}
	return "CAST(" + expression + " AS BIGINT)"
}
