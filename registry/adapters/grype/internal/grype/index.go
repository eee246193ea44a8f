// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/registry/internal/adapter/database"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// What a database says of packages, by the keys under which it is asked for. The numbers of rows are not looked at: another build of equal
// data has others.
const (
	packagesOf = `SELECT p.id, p.name, p.ecosystem, coalesce(o.name, ''), coalesce(o.release_id, ''), coalesce(o.major_version, ''),
		coalesce(o.minor_version, ''), coalesce(o.label_version, ''), coalesce(o.channel, ''), v.name, v.provider_id, b.value
		FROM %s h JOIN packages p ON p.id = h.package_id JOIN vulnerability_handles v ON v.id = h.vulnerability_id
		LEFT JOIN operating_systems o ON o.id = h.operating_system_id LEFT JOIN blobs b ON b.id = h.blob_id`
	productsOf = `SELECT c.vendor, c.product, c.part, c.edition, c.language, c.software_edition, c.target_hardware, c.target_software, c.other,
		v.name, v.provider_id, b.value
		FROM %s h JOIN cpes c ON c.id = h.cpe_id JOIN vulnerability_handles v ON v.id = h.vulnerability_id LEFT JOIN blobs b ON b.id = h.blob_id`
	productsOfPackages = `SELECT j.package_id, c.vendor, c.product FROM package_cpes j JOIN cpes c ON c.id = j.cpe_id`
)

// details are what reports tell of vulnerabilities, by identifier. EPSS is not told.
var details = []string{
	`SELECT v.name, v.provider_id, v.status, v.published_date, v.modified_date, v.withdrawn_date, b.value
		FROM vulnerability_handles v LEFT JOIN blobs b ON b.id = v.blob_id`,
	`SELECT k.cve, b.value FROM known_exploited_vulnerability_handles k LEFT JOIN blobs b ON b.id = k.blob_id`,
	`SELECT cve, cwe, source, type FROM cwe_handles`,
}

// general are what concerns all packages: how distributions, ecosystems and architectures are told.
var general = []string{
	`SELECT model, revision, addition FROM db_metadata`,
	`SELECT name, release_id, major_version, minor_version, label_version, codename, channel, eol_date FROM operating_systems
		ORDER BY name, release_id, major_version, minor_version, label_version, codename, channel`,
	`SELECT alias, version, version_pattern, codename, channel, replacement, replacement_major_version, replacement_minor_version,
		replacement_label_version, replacement_channel, rolling, applicable_client_db_schemas FROM operating_system_specifier_overrides
		ORDER BY alias, version, version_pattern, codename, channel, replacement`,
	`SELECT ecosystem, replacement_ecosystem FROM package_specifier_overrides ORDER BY ecosystem, replacement_ecosystem`,
	`SELECT alias, canonical FROM architecture_aliases ORDER BY alias`,
}

// indexing walks a database.
type indexing struct {
	ctx    context.Context //nolint:containedctx // of one walk
	tables *sql.DB
	index  protocol.Index
}

func indexOf(ctx context.Context, dir string) (protocol.Index, error) {
	if _, err := database.Describe(dir); err != nil {
		return nil, err
	}
	i := &indexing{ctx: ctx}
	if err := view(dir, func(tables *sql.DB) error {
		i.tables = tables
		return errors.Join(i.packages(), i.products(), i.details(), i.general())
	}); err != nil {
		return nil, err
	}
	return i.index.Sorted(), nil
}

// rows gives each row as texts. A value that is not there differs from an empty one.
func (i *indexing) rows(query string, each func(row []string)) (err error) {
	rows, err := i.tables.QueryContext(i.ctx, query)
	if err != nil {
		return fmt.Errorf("read database: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read database: %w", err)
	}
	values, places, texts := make([]any, len(columns)), make([]any, len(columns)), make([]string, len(columns))
	for n := range values {
		places[n] = &values[n]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return fmt.Errorf("read database: %w", err)
		}
		for n, value := range values {
			switch known := value.(type) {
			case string:
				texts[n] = known
			case []byte:
				texts[n] = string(known)
			default:
				texts[n] = fmt.Sprint(known)
			}
		}
		each(texts)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read database: %w", err)
	}
	return nil
}

func valueOf(parts []string) uint64 {
	sum := database.NewSum()
	for _, part := range parts {
		sum.Add([]byte(part))
	}
	return sum.Value()
}

func (i *indexing) add(key string, value uint64) {
	i.index = append(i.index, protocol.IndexEntry{Key: protocol.KeyHash(key), Value: value})
}

// packages takes what is known under the names of packages, and under the products that stand for them.
func (i *indexing) packages() error {
	products := map[string][]string{}
	if err := i.rows(productsOfPackages, func(row []string) {
		products[row[0]] = append(products[row[0]], keyOfCPE(row[1], row[2]), keyOfCPE(anyVendor, row[2]))
	}); err != nil {
		return err
	}
	for _, table := range []string{"affected_package_handles", "unaffected_package_handles"} {
		if err := i.rows(fmt.Sprintf(packagesOf, table), func(row []string) {
			id, name, ecosystem, system := row[0], row[1], row[2], row[3]
			value := valueOf(append([]string{table}, row[1:]...))
			kind := kindOf(system)
			if system == "" {
				kind = kindOf(ecosystem)
			}
			i.add(protocol.Key(kind, name), value)
			for _, key := range products[id] {
				i.add(key, value)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (i *indexing) products() error {
	for _, table := range []string{"affected_cpe_handles", "unaffected_cpe_handles"} {
		if err := i.rows(fmt.Sprintf(productsOf, table), func(row []string) {
			value := valueOf(append([]string{table}, row...))
			i.add(keyOfCPE(row[0], row[1]), value)
			i.add(keyOfCPE(anyVendor, row[1]), value)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (i *indexing) details() error {
	for _, query := range details {
		if err := i.rows(query, func(row []string) { i.add(protocol.Key("vuln", row[0]), valueOf(append([]string{query}, row...))) }); err != nil {
			return err
		}
	}
	return nil
}

func (i *indexing) general() error {
	sum := database.NewSum()
	for _, query := range general {
		if err := i.rows(query, func(row []string) { sum.Add([]byte(query), []byte(fmt.Sprintf("%q", row))) }); err != nil {
			return err
		}
	}
	i.add(database.Everything, sum.Value())
	return nil
}
