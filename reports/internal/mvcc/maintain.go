// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Backup writes a copy of the database, as of a moment, into a new file, while others write. Only SQLite has it; the other
// databases have tools of their own.
func (s *Store) Backup(ctx context.Context, file string) error {
	return s.classified(ctx, "back up", s.db.Backup(ctx, file))
}

// CheckReferences counts the rows that name each payload and returns how many payloads say another number. With repair,
// they are corrected.
func (s *Store) CheckReferences(ctx context.Context, repair bool) (int, error) {
	wrong := map[string]int64{}
	err := s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error {
		if err := miscounted(ctx, tx, wrong); err != nil || !repair {
			return err
		}
		for sha, refs := range wrong {
			if _, err := tx.Exec(ctx, `UPDATE blobs SET refs = ? WHERE sha = ?`, refs, sha); err != nil {
				return err
			}
		}
		return nil
	})
	return len(wrong), s.classified(ctx, "check references", err)
}

func miscounted(ctx context.Context, tx *sqldb.Tx, wrong map[string]int64) error {
	rows, err := tx.Query(ctx, `SELECT b.sha, b.refs, COALESCE(SUM(u.n), 0) FROM blobs b LEFT JOIN (
		SELECT payload AS sha, COUNT(*) AS n FROM objects WHERE payload IS NOT NULL GROUP BY payload
		UNION ALL SELECT before_payload, COUNT(*) FROM changes WHERE before_payload IS NOT NULL GROUP BY before_payload
	) AS u ON u.sha = b.sha GROUP BY b.sha, b.refs`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var sha string
		var said, counted int64
		if err := rows.Scan(&sha, &said, &counted); err != nil {
			return err
		}
		if said != counted {
			wrong[sha] = counted
		}
	}
	return rows.Err()
}
