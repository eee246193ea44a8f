// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// fillAtOnce is how many objects one transaction of FillRows concerns.
const fillAtOnce = 500

// FillRows writes the rows of objects that have none: those that a release has written whose schema had no such table. An
// object that cannot be read is passed by, and told.
func (s *Storage) FillRows(ctx context.Context) error {
	if s.kind.RowTable == "" || s.kind.Index == nil {
		return nil
	}
	var objects, rows int64
	err := s.store.Query(ctx, func(tx *sqldb.Tx) error {
		return errors.Join(
			tx.QueryRow(ctx, `SELECT COUNT(*) FROM objects WHERE kind = ?`, s.kind.Number).Scan(&objects),
			tx.QueryRow(ctx, `SELECT COUNT(*) FROM `+s.kind.RowTable+` WHERE kind = ?`, s.kind.Number).Scan(&rows),
		)
	})
	if err != nil || objects == rows {
		return err
	}
	for after := ""; ; {
		keys, err := s.withoutRow(ctx, after)
		if err != nil || len(keys) == 0 {
			return err
		}
		after = keys[len(keys)-1]
		if err := s.fill(ctx, keys); err != nil {
			return fmt.Errorf("fill in the rows of %s: %w", s.kind.Resource, err)
		}
	}
}

func (s *Storage) withoutRow(ctx context.Context, after string) (keys []string, err error) {
	err = s.store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT o."key" FROM objects o LEFT JOIN `+s.kind.RowTable+` r ON r.object = o.id
			WHERE o.kind = ? AND r.object IS NULL AND o."key" > ? ORDER BY o."key" LIMIT ?`, s.kind.Number, after, fillAtOnce)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var key string
			if err := found.Scan(&key); err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return found.Err()
	})
	return keys, err
}

// unfilled is an object without a row.
type unfilled struct {
	key      string
	revision int64
	index    mvcc.Indexer
}

// fill writes the rows of some objects.
func (s *Storage) fill(ctx context.Context, keys []string) error {
	var missing []unfilled
	for _, key := range keys {
		one, err := s.unfilled(ctx, key)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "An object cannot be asked for by its fields", "key", key)
		case one != nil:
			missing = append(missing, *one)
		}
	}
	return s.store.Maintain(ctx, "fill in rows", func(tx *sqldb.Tx) error {
		for i := range missing {
			if err := s.fillOne(ctx, tx, &missing[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// unfilled reads an object; nil if it is gone.
func (s *Storage) unfilled(ctx context.Context, key string) (*unfilled, error) {
	obj := s.newObject()
	err := s.Get(ctx, key, storage.GetOptions{}, obj)
	if storage.IsNotFound(err) {
		return nil, nil // it is gone
	}
	if err != nil {
		return nil, err
	}
	revision, err := s.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return nil, fmt.Errorf("read the resource version: %w", err)
	}
	index, err := s.kind.Index(obj)
	return &unfilled{key: key, revision: int64(revision), index: index}, err
}

// fillOne writes the row of an object, unless somebody else has written the object meanwhile, and its row with it.
func (s *Storage) fillOne(ctx context.Context, tx *sqldb.Tx, missing *unfilled) error {
	var id int64
	err := tx.QueryRow(ctx, `SELECT id FROM objects WHERE "key" = ? AND rv = ?`, missing.key, missing.revision).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", missing.key, err)
	}
	return missing.index(ctx, tx, id, s.options.Clock.Now())
}
