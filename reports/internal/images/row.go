// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Table is where the rows are.
const Table = "subjects"

// Row is what is kept of an object. Times are milliseconds since 1970.
type Row struct {
	Kind                                            int
	Namespace, Name, Image                          string
	RegistryUID, Registry, Host                     string
	Repository, Tag, Digest, IndexDigest, Platform  string
	Bytes                                           int64
	State, Presence, JobUID                         string
	NotBefore, Attempt, Lost                        int64
	Critical, High                                  int64
	Adapter, Engine, EngineVersion, DatabaseVersion string
}

// Lengths of columns.
const (
	longName = 768
	longText = 160
	longWord = 64
)

// column is what a column can hold of a text: printable ASCII, and not all of a long one. Programs send no others.
func column(text string, longest int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), longest)]
}

// columns are those that Put writes, in the order of values.
var columns = []string{
	"kind", "ns", "name", "image", "registry_uid", "registry", "host", "repository", "tag", "digest", "index_digest", "platform", "bytes",
	"state", "presence", "job_uid", "not_before", "attempt", "lost", "critical", "high", "adapter", "engine", "engine_version", "database_version",
}

func (r *Row) values() []any {
	return []any{
		r.Kind, r.Namespace, r.Name, column(r.Image, longName), column(r.RegistryUID, longWord), column(r.Registry, longName), column(r.Host, longName),
		column(r.Repository, longName), column(r.Tag, longText), column(r.Digest, longText), column(r.IndexDigest, longText), column(r.Platform, longText),
		r.Bytes, column(r.State, longWord), column(r.Presence, longWord), column(r.JobUID, longWord), r.NotBefore, r.Attempt, r.Lost, r.Critical, r.High,
		column(r.Adapter, longText), column(r.Engine, longText), column(r.EngineVersion, longText), column(r.DatabaseVersion, longText),
	}
}

// Put writes the row of an object. What Share and Good have written stays.
func (r *Row) Put(ctx context.Context, tx *sqldb.Tx, object int64) error {
	found, err := tx.Exec(ctx, `UPDATE subjects SET `+strings.Join(columns, " = ?, ")+` = ? WHERE object = ?`, append(r.values(), object)...)
	if err == nil && found == 0 {
		marks := strings.Repeat("?, ", len(columns))
		_, err = tx.Exec(ctx, `INSERT INTO subjects (`+strings.Join(columns, ", ")+`, object, shareable, content, seq) VALUES (`+marks+`?, 0, 0, 0)`,
			append(r.values(), object)...)
	}
	if err != nil {
		return fmt.Errorf("write the row of %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// Share notes which content an object is about, and whether other namespaces may have it, too.
func Share(ctx context.Context, tx *sqldb.Tx, object, content int64, shareable bool) error {
	may := 0
	if shareable {
		may = 1
	}
	_, err := tx.Exec(ctx, `UPDATE subjects SET content = ?, shareable = ? WHERE object = ?`, content, may, object)
	return err
}

// Drop removes what is kept of an object that is deleted, in the transaction of the deletion.
func Drop(ctx context.Context, tx *sqldb.Tx, object int64) error {
	for _, statement := range []string{`DELETE FROM finding_keys WHERE object = ?`, `DELETE FROM subjects WHERE object = ?`} {
		if _, err := tx.Exec(ctx, statement, object); err != nil {
			return fmt.Errorf("drop the row: %w", err)
		}
	}
	return contents.Drop(ctx, tx, object)
}
