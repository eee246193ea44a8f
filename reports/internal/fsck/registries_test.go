// SPDX-License-Identifier: Apache-2.0

package fsck_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// writeSBOM writes an SBOM with its document of some chunks, as an upload does.
func writeSBOM(t *testing.T, store *mvcc.Store, name, letter string) {
	t.Helper()
	index := func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
		row := images.Row{Kind: kinds.SBOMNumber, Namespace: "ns", Name: name}
		if err := row.Put(ctx, tx, object); err != nil {
			return err
		}
		content, _, err := contents.Put(ctx, tx, object, kinds.FormatSPDX, []byte(strings.Repeat(letter, contents.Chunk+1)), at)
		if err != nil {
			return err
		}
		return images.AddPackages(ctx, tx, content, []string{"pkg:npm/" + letter})
	}
	state := &mvcc.State{Head: []byte("{}"), Kind: kinds.SBOMNumber, Namespace: "ns", Name: name, Index: index}
	outcome, err := store.Write(t.Context(), mvcc.Change{Key: "/sboms/ns/" + name, To: state})
	if err != nil || !outcome.Written {
		t.Fatal(outcome, err)
	}
}

// What registries have is counted as well: documents that several have, those that are on their way, and what is beside an object.
func TestRegistries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		store := openStore(t, config)
		writeSBOM(t, store, "one", "a")
		writeSBOM(t, store, "two", "a")
		writeSBOM(t, store, "three", "b")
		writeSBOM(t, store, "four", "c")
		if _, err := contents.Stage(t.Context(), store, time.Now()); err != nil {
			t.Fatal(err)
		}
		expect(t, "as it was written", run(t, config, false), right...)
		err := store.Maintain(t.Context(), "damage", func(tx *sqldb.Tx) error {
			var errs []error
			for _, statement := range []string{
				`UPDATE contents SET refs = refs + 1 WHERE sha IS NOT NULL`,
				`DELETE FROM content_chunks WHERE seq = 1 AND content = (SELECT MIN(id) FROM contents)`,
				`INSERT INTO content_chunks (content, seq, data) VALUES (9999, 0, '')`,
				`INSERT INTO sbom_packages (content, package) VALUES (9998, 1)`,
				`INSERT INTO documents (object, format, content) VALUES (9997, 'spdx-json', 9996)`,
				`INSERT INTO finding_keys (object, hash) VALUES (9997, 1)`,
				`DELETE FROM subjects WHERE name = 'three'`,
				`DELETE FROM objects WHERE name = 'four'`,
			} {
				_, err := tx.Exec(t.Context(), statement)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
		closeStore(t, store)
		if err != nil {
			t.Fatal(err)
		}
		repaired := append([]string{}, right...)
		repaired[0] = "rows without an object: 2 true"
		repaired[5] = "chunks and packages without a document: 2 true"
		repaired[6] = "references of documents: 3 true"
		repaired[7] = "missing documents: 2 false"
		repaired[8] = "images and repositories without their fields: 1 false"
		expect(t, "repaired", run(t, config, true), repaired...)
		still := append([]string{}, right...)
		still[7], still[8] = repaired[7], repaired[8]
		expect(t, "what cannot be made again is told again", run(t, config, false), still...)
	})
}
