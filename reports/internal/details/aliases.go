// SPDX-License-Identifier: Apache-2.0

package details

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// longestLine of findings, as they are taken in.
const longestLine = 1 << 20

// Aliases returns what finds the identifiers of findings that have an identifier as an alias. An engine gives a vulnerability one
// identifier, so one report of each version of an engine tells. It has the type of answer.Answerer's Aliases.
func Aliases(store *mvcc.Store) func(ctx context.Context, id string) ([]string, error) {
	return func(ctx context.Context, id string) ([]string, error) {
		keys, err := reportsWith(ctx, store, id)
		if err != nil {
			return nil, err
		}
		found := map[string]bool{}
		for _, key := range keys {
			if err := aliasesIn(ctx, store, key, id, found); err != nil {
				return nil, err
			}
		}
		delete(found, id)
		return slices.Sorted(maps.Keys(found)), nil
	}
}

// reportsWith are the keys of one report of each version of an engine that has found a vulnerability, under whatever name.
func reportsWith(ctx context.Context, store *mvcc.Store, id string) (keys []string, err error) {
	err = store.Query(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT o."key" FROM objects o WHERE o.id IN (SELECT MIN(k.object) FROM finding_keys k JOIN subjects s ON s.object = k.object
			WHERE k.hash = ? GROUP BY s.adapter, s.engine_version)`, images.Hash("vuln|"+id))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // errors of reading are those of Err
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return rows.Err()
	})
	return keys, err
}

// aliasesIn notes what a report calls a vulnerability.
func aliasesIn(ctx context.Context, store *mvcc.Store, key, id string, found map[string]bool) error {
	info, err := contents.Of(ctx, store, key, kinds.FormatFindings)
	if err != nil || info == nil {
		return err
	}
	reader, err := contents.Open(ctx, store, info.Content)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var finding struct {
			VulnerabilityID string   `json:"vulnerabilityID"`
			Aliases         []string `json:"aliases"`
		}
		if err := json.Unmarshal(lines.Bytes(), &finding); err != nil {
			return err
		}
		if finding.VulnerabilityID == "" {
			return nil // keys of packages follow the findings
		}
		if slices.ContainsFunc(finding.Aliases, func(alias string) bool { return strings.EqualFold(alias, id) }) {
			found[finding.VulnerabilityID] = true
		}
	}
	return lines.Err()
}
