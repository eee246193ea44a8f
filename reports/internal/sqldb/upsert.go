// SPDX-License-Identifier: Apache-2.0

package sqldb

import "strings"

// addOnConflict is the form of an upsert that SQLite and PostgreSQL share.
func addOnConflict(table string, key, columns []string) string {
	sets := make([]string, 0, len(columns))
	for _, column := range columns {
		sets = append(sets, column+" = "+table+"."+column+" + excluded."+column)
	}
	return " ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

// keepOnConflict is the end of an INSERT that leaves rows alone that are there already, in the form of SQLite and PostgreSQL.
func keepOnConflict(string) string { return " ON CONFLICT DO NOTHING" }
