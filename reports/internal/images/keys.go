// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// step is how many rows one statement concerns.
const step = 500

// Hash is the number of a key: the first 8 bytes of the SHA-256 of its text in lower case.
func Hash(key string) int64 {
	sum := sha256.Sum256([]byte(strings.ToLower(key)))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func sumOf(purl string) string {
	sum := sha256.Sum256([]byte(purl))
	return hex.EncodeToString(sum[:16])
}

// packagesOf returns the numbers of packages, and gives one to those that are new, in a transaction that holds the counter.
func packagesOf(ctx context.Context, tx *sqldb.Tx, purls []string) (map[string]int64, error) {
	bySum := make(map[string]string, len(purls))
	sums := make([]string, 0, len(purls))
	for _, purl := range purls {
		sum := sumOf(purl)
		if _, there := bySum[sum]; !there {
			bySum[sum], sums = purl, append(sums, sum)
		}
	}
	found := make(map[string]int64, len(sums))
	for part := range slices.Chunk(sums, step) {
		if err := readPackages(ctx, tx, part, bySum, found); err != nil {
			return nil, err
		}
	}
	if len(found) == len(sums) {
		return found, nil
	}
	var last int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(id), 0) FROM packages`).Scan(&last); err != nil {
		return nil, err
	}
	var fresh []any
	for _, sum := range sums {
		purl := bySum[sum]
		if _, known := found[purl]; !known {
			last++
			found[purl] = last
			fresh = append(fresh, last, sum, textOf(purl))
		}
	}
	return found, tx.Insert(ctx, "packages", []string{"id", "sum", "purl"}, "", fresh...)
}

// textOf is what the database can hold of a text.
func textOf(text string) string {
	const longest = 4 << 10
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

func readPackages(ctx context.Context, tx *sqldb.Tx, sums []string, bySum map[string]string, into map[string]int64) error {
	in, args := tx.In("sum", sums)
	rows, err := tx.Query(ctx, `SELECT id, sum FROM packages WHERE `+in, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var id int64
		var sum string
		if err := rows.Scan(&id, &sum); err != nil {
			return err
		}
		into[bySum[sum]] = id
	}
	return rows.Err()
}

// AddPackages notes packages of a content, in a transaction that holds the counter. Those that it has already stay.
func AddPackages(ctx context.Context, tx *sqldb.Tx, content int64, purls []string) error {
	if len(purls) == 0 {
		return nil
	}
	ids, err := packagesOf(ctx, tx, purls)
	if err != nil {
		return err
	}
	return link(ctx, tx, content, ids)
}

func link(ctx context.Context, tx *sqldb.Tx, content int64, ids map[string]int64) error {
	var wanted []any
	for _, id := range ids {
		wanted = append(wanted, content, id)
	}
	return insertMissing(ctx, tx, "sbom_packages", []string{"content", "package"}, wanted)
}

// insertMissing inserts the rows that a table does not have. All of their columns are its key.
func insertMissing(ctx context.Context, tx *sqldb.Tx, table string, names []string, values []any) error {
	return tx.Insert(ctx, table, names, tx.OrKeep(names[0]), values...)
}

// AddKeys notes under which keys an adapter looks for packages of a content, in a transaction that holds the counter.
func AddKeys(ctx context.Context, tx *sqldb.Tx, adapter string, content int64, lines []reportsv1.PackageKeys) error {
	purls := make([]string, 0, len(lines))
	for i := range lines {
		purls = append(purls, lines[i].PURL)
	}
	ids, err := packagesOf(ctx, tx, purls)
	if err != nil {
		return err
	}
	if err := link(ctx, tx, content, ids); err != nil {
		return err
	}
	var wanted []any
	for i := range lines {
		for _, key := range lines[i].Keys {
			wanted = append(wanted, column(adapter, longText), ids[lines[i].PURL], Hash(key))
		}
	}
	return insertMissing(ctx, tx, "package_keys", []string{"adapter", "package", "hash"}, wanted)
}

// SetFindingKeys replaces the keys of what a report has found.
func SetFindingKeys(ctx context.Context, tx *sqldb.Tx, object int64, hashes map[int64]bool) error {
	if _, err := tx.Exec(ctx, `DELETE FROM finding_keys WHERE object = ?`, object); err != nil {
		return err
	}
	values := make([]any, 0, 2*len(hashes))
	for hash := range hashes {
		values = append(values, object, hash)
	}
	return insertMissing(ctx, tx, "finding_keys", []string{"object", "hash"}, values)
}

const databaseSequence = "databases"

// NoteDatabase makes a version the newest of an adapter's data, in a transaction that holds the counter, unless it is known.
// What differs from the data before is not known then. It returns the place of the version in their order.
func NoteDatabase(ctx context.Context, tx *sqldb.Tx, adapter, version string, built int64) (seq int64, err error) {
	if seq, err = place(ctx, tx, adapter, version); err != nil || seq != 0 {
		return seq, err
	}
	return addDatabase(ctx, tx, adapter, version, built, false)
}

func addDatabase(ctx context.Context, tx *sqldb.Tx, adapter, version string, built int64, linked bool) (seq int64, err error) {
	if seq, err = mvcc.NextNumber(ctx, tx, databaseSequence); err != nil {
		return 0, err
	}
	isLinked := 0
	if linked {
		isLinked = 1
	}
	_, err = tx.Exec(ctx, `INSERT INTO database_versions (adapter, seq, version, built, linked) VALUES (?, ?, ?, ?, ?)`,
		column(adapter, longText), seq, column(version, longText), built, isLinked)
	return seq, err
}

// place is where a version stands in the order of an adapter's data; 0 if it is not known.
func place(ctx context.Context, tx *sqldb.Tx, adapter, version string) (seq int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM database_versions WHERE adapter = ? AND version = ?`,
		column(adapter, longText), column(version, longText)).Scan(&seq)
	return seq, err
}

// newest is the newest version of an adapter's data; "" and 0 if none is known.
func newest(ctx context.Context, tx *sqldb.Tx, adapter string) (version string, seq int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM database_versions WHERE adapter = ?`, column(adapter, longText)).Scan(&seq)
	if err != nil || seq == 0 {
		return "", 0, err
	}
	err = tx.QueryRow(ctx, `SELECT version FROM database_versions WHERE adapter = ? AND seq = ?`, column(adapter, longText), seq).Scan(&version)
	return version, seq, err
}

// Link adds a version of an adapter's data whose differences to the newest one are known. It returns the newest version
// where that is not the one before; a version that is linked already stays.
func Link(ctx context.Context, tx *sqldb.Tx, adapter, from, to string, built int64, hashes []int64) (other string, err error) {
	version, _, err := newest(ctx, tx, adapter)
	if err != nil || version == to {
		return "", err
	}
	if version == "" || version != from {
		return version, nil
	}
	seq, err := addDatabase(ctx, tx, adapter, to, built, true)
	if err != nil {
		return "", err
	}
	values := make([]any, 0, 3*step)
	for part := range slices.Chunk(hashes, step) {
		values = values[:0]
		for _, hash := range part {
			values = append(values, column(adapter, longText), hash, seq)
		}
		if err := insertMissing(ctx, tx, "database_changes", []string{"adapter", "hash", "seq"}, values); err != nil {
			return "", err
		}
	}
	return "", nil
}
