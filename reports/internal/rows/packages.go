// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// texts are those that need a number. What is not known of a package has none.
func (p *Package) texts() (texts []string) {
	for _, text := range []string{p.Type, p.Version} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// columns are what a row has of its package.
func (p *Package) columns(numbers map[string]int64) (pkgType, pkgVersion, fixable sql.NullInt64) {
	if p == nil {
		return pkgType, pkgVersion, fixable
	}
	number := func(text string) sql.NullInt64 { return sql.NullInt64{Int64: numbers[text], Valid: text != ""} }
	fixable.Valid = true
	if p.Fixable {
		fixable.Int64 = 1
	}
	return number(p.Type), number(p.Version), fixable
}

// FillPackages gives the rows of an object their packages, in the order of the rows. Rows that were written since have theirs.
func FillPackages(ctx context.Context, tx *sqldb.Tx, object int64, packages []*Package) error {
	var texts []string
	for _, p := range packages {
		texts = append(texts, p.texts()...)
	}
	numbers, err := numbersOf(ctx, tx, texts)
	if err != nil {
		return fmt.Errorf("number the texts: %w", err)
	}
	for i, p := range packages {
		pkgType, pkgVersion, fixable := p.columns(numbers)
		_, err := tx.Exec(ctx, `UPDATE results SET pkg_type = ?, pkg_version = ?, fixable = ? WHERE object = ? AND i = ? AND fixable IS NULL`,
			pkgType, pkgVersion, fixable, object, i)
		if err != nil {
			return fmt.Errorf("fill in packages: %w", err)
		}
	}
	return nil
}
