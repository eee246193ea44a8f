// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"
)

// step is how many rows one statement inserts where each value is a parameter: 21 parameters for each at most, of the 32,766
// that SQLite allows. Numbers of rows beyond a few are powers of two, so that there are few different statements, and databases keep them
// prepared: translating and planning a statement takes longer than to run it for a few rows.
const (
	step = 128
	few  = 8
)

// In returns the condition that a column has one of some values, and the parameters: others, and the values behind them.
func (t *Tx) In(column string, values []string, before ...any) (condition string, args []any) {
	return in(t, column, values, before)
}

// InNumbers is In for numbers.
func (t *Tx) InNumbers(column string, values []int64, before ...any) (condition string, args []any) {
	return in(t, column, values, before)
}

// in gives PostgreSQL the values as one array. Elsewhere the last value is repeated until there are as many as a power of two.
func in[T any](t *Tx, column string, values []T, before []any) (condition string, args []any) {
	if t.db.dialect.arrays() {
		return column + ` = ANY(?)`, append(append(make([]any, 0, len(before)+1), before...), values)
	}
	n := 1
	for n < len(values) {
		n *= 2
	}
	args = append(make([]any, 0, len(before)+n), before...)
	for i := range n {
		args = append(args, values[min(i, len(values)-1)])
	}
	return column + ` IN ` + marks(1, n), args
}

// Column returns the values of a query of one column.
func Column[T any](ctx context.Context, tx *Tx, query string, args ...any) (found []T, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		found = append(found, value)
	}
	return found, rows.Err()
}

// Insert inserts rows. values are those of the first row in the order of the columns, then those of the next; all values of
// a column are of one type. end is what follows the rows in the statement.
func (t *Tx) Insert(ctx context.Context, table string, columns []string, end string, values ...any) error {
	if len(values) == 0 {
		return nil
	}
	width := len(columns)
	into := `INSERT INTO ` + table + ` (` + strings.Join(columns, ", ") + `) `
	if t.db.dialect.arrays() {
		types, arrays, err := arraysOf(values, width)
		if err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
		_, err = t.Exec(ctx, into+`SELECT * FROM unnest(`+strings.Join(types, ", ")+`)`+end, arrays...)
		return err
	}
	for part := range parts(values, width) {
		if _, err := t.Exec(ctx, into+`VALUES `+marks(len(part)/width, width)+end, part...); err != nil {
			return err
		}
	}
	return nil
}

// marks are n groups of placeholders, for a list of values.
func marks(n, columns int) string {
	group := "(" + strings.TrimSuffix(strings.Repeat("?, ", columns), ", ") + ")"
	return strings.TrimSuffix(strings.Repeat(group+", ", n), ", ")
}

// parts cuts values into as many parts of step rows as there are, and what is left into halves of that, until few rows are left.
func parts(values []any, width int) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for n := step; len(values) > 0; {
			for n*width > len(values) {
				n = max(n/2, min(few, len(values)/width))
			}
			if !yield(values[:n*width]) {
				return
			}
			values = values[n*width:]
		}
	}
}

// arraysOf turns rows into an array for each column, and a placeholder with the type of each array: PostgreSQL takes a dozen
// arrays faster than thousands of parameters.
func arraysOf(values []any, width int) (types []string, arrays []any, err error) {
	for at := range width {
		var name string
		var array any
		switch values[at].(type) {
		case string:
			name = "text"
			array, err = column(values, at, width, func(value any) (text string, ok bool) { text, ok = value.(string); return text, ok })
		case int, int64:
			name = "bigint"
			array, err = column(values, at, width, integer)
		case sql.NullInt64:
			name = "bigint"
			array, err = column(values, at, width, func(value any) (*int64, bool) {
				number, ok := value.(sql.NullInt64)
				return orNil(number.Int64, number.Valid), ok
			})
		case sql.NullFloat64:
			name = "double precision"
			array, err = column(values, at, width, func(value any) (*float64, bool) {
				number, ok := value.(sql.NullFloat64)
				return orNil(number.Float64, number.Valid), ok
			})
		default:
			err = fmt.Errorf("column %d: there are no arrays of %T", at, values[at])
		}
		if err != nil {
			return nil, nil, err
		}
		types, arrays = append(types, `?::`+name+`[]`), append(arrays, array)
	}
	return types, arrays, nil
}

func column[E any](values []any, at, width int, element func(any) (E, bool)) ([]E, error) {
	elements := make([]E, 0, len(values)/width)
	for ; at < len(values); at += width {
		made, ok := element(values[at])
		if !ok {
			return nil, fmt.Errorf("column %d: %T is of another type than the values before", at%width, values[at])
		}
		elements = append(elements, made)
	}
	return elements, nil
}

func integer(value any) (int64, bool) {
	switch number := value.(type) {
	case int:
		return int64(number), true
	case int64:
		return number, true
	}
	return 0, false
}

func orNil[E any](value E, valid bool) *E {
	if !valid {
		return nil
	}
	return &value
}
