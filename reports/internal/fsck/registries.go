// SPDX-License-Identifier: Apache-2.0

package fsck

import (
	"context"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// besideObjects are the tables whose rows belong to an object.
var besideObjects = []string{"results", "subjects", "finding_keys", "documents"}

// besideContents are the tables whose rows belong to a content.
var besideContents = []string{"content_chunks", "sbom_packages"}

// strays finds rows of tables whose owner is gone: column is the owner's number.
func strays(ctx context.Context, tx *sqldb.Tx, tables []string, column, owners string) ([]row, error) {
	query := ""
	for _, table := range tables {
		if query != "" {
			query += " UNION "
		}
		query += `SELECT t.` + column + ` AS number FROM ` + table + ` t LEFT JOIN ` + owners + ` o ON o.id = t.` + column + ` WHERE o.id IS NULL`
	}
	return read(ctx, tx, 1, `SELECT NULL, s.number, 1 FROM (`+query+`) AS s`)
}

func dropStrays(ctx context.Context, tx *sqldb.Tx, wrong []row, tables []string, column string) error {
	for _, r := range wrong {
		for _, table := range tables {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE `+column+` = ?`, r.key...); err != nil {
				return err
			}
		}
	}
	return nil
}

func strayRows(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return strays(ctx, tx, besideObjects, "object", "objects")
}

func dropStrayRows(ctx context.Context, tx *sqldb.Tx, wrong []row, _ time.Time) error {
	return dropStrays(ctx, tx, wrong, besideObjects, "object")
}

func strayChunks(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return strays(ctx, tx, besideContents, "content", "contents")
}

func dropStrayChunks(ctx context.Context, tx *sqldb.Tx, wrong []row, _ time.Time) error {
	return dropStrays(ctx, tx, wrong, besideContents, "content")
}

func wrongContents(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 1, `SELECT NULL, c.id, COUNT(d.content) FROM contents c LEFT JOIN documents d ON d.content = c.id
		GROUP BY c.id, c.refs HAVING COUNT(d.content) <> c.refs`)
}

// setContents corrects references. A content that nobody has any more is swept an hour later.
func setContents(ctx context.Context, tx *sqldb.Tx, wrong []row, now time.Time) error {
	for _, r := range wrong {
		if _, err := tx.Exec(ctx, `UPDATE contents SET refs = ?, at = ? WHERE id = ?`, append([]any{r.n, now.UnixMilli()}, r.key...)...); err != nil {
			return err
		}
	}
	return nil
}

// cutContents finds documents that are not there, or not with all of their chunks.
func cutContents(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 1, fmt.Sprintf(`SELECT d.format, d.object, COUNT(k.content) FROM documents d LEFT JOIN contents c ON c.id = d.content
		LEFT JOIN content_chunks k ON k.content = d.content GROUP BY d.object, d.format, c.id, c.bytes
		HAVING c.id IS NULL OR COUNT(k.content) * %d < c.bytes`, contents.Chunk))
}

// withoutSubject finds objects that are not found by their fields. Whoever writes one anew makes its row.
func withoutSubject(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 0, fmt.Sprintf(`SELECT o."key", o.rv FROM objects o LEFT JOIN subjects s ON s.object = o.id
		WHERE o.kind IN (%d, %d, %d, %d) AND s.object IS NULL`, kinds.ImageNumber, kinds.SBOMNumber, kinds.VulnerabilityReportNumber, kinds.RepositoryNumber))
}
