// SPDX-License-Identifier: Apache-2.0

// Package testdb makes small databases in the format of trivy-db, from the advisories that mini reads. It uses the put functions of
// trivy-db's own package and not its writer, which asks the internet.
package testdb

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aquasecurity/trivy-db/pkg/db"
	"github.com/aquasecurity/trivy-db/pkg/metadata"
	"github.com/aquasecurity/trivy-db/pkg/types"
	bolt "go.etcd.io/bbolt"

	"github.com/scanyard/scanyard/registry/internal/mini"
)

// Schema is that of the databases.
const Schema = db.SchemaVersion

const permissions = 0o600

// bucketOf names the bucket of an ecosystem, and the source of its advisories.
func bucketOf(a mini.Advisory) (string, types.DataSource) {
	switch a.Ecosystem {
	case "npm":
		return "npm::GitHub Security Advisory npm", types.DataSource{ID: "ghsa", Name: "GitHub Security Advisory npm"}
	case "go":
		return "go::The Go Vulnerability Database", types.DataSource{ID: "govulndb", Name: "The Go Vulnerability Database"}
	}
	return a.Ecosystem + " " + a.Release, types.DataSource{ID: types.SourceID(a.Ecosystem), Name: a.Source}
}

func advisoryOf(a mini.Advisory) types.Advisory {
	var out types.Advisory
	for _, r := range a.Ranges {
		if a.Ecosystem != "npm" && a.Ecosystem != "go" {
			out.FixedVersion = r.Fixed
			continue
		}
		var bounds []string
		if r.Introduced != "" {
			bounds = append(bounds, ">="+r.Introduced)
		}
		if r.Fixed != "" {
			bounds = append(bounds, "<"+r.Fixed)
			out.PatchedVersions = append(out.PatchedVersions, r.Fixed)
		}
		out.VulnerableVersions = append(out.VulnerableVersions, strings.Join(bounds, ", "))
	}
	if out.FixedVersion == "" && len(out.PatchedVersions) == 0 {
		out.Status = types.NewStatus(a.Status)
	}
	for _, alias := range a.Aliases {
		if alias != a.ID {
			out.VendorIDs = append(out.VendorIDs, alias)
		}
	}
	return out
}

func vulnerabilityOf(a mini.Advisory, built time.Time) (types.Vulnerability, error) {
	severity, err := types.NewSeverity(a.Severity)
	if err != nil {
		return types.Vulnerability{}, fmt.Errorf("advisory %s: %w", a.ID, err)
	}
	v := types.Vulnerability{
		Title: a.Title, VendorSeverity: types.VendorSeverity{"nvd": severity}, CweIDs: a.CWEs, PublishedDate: &built,
	}
	if a.Vector != "" {
		v.CVSS = types.VendorCVSS{"nvd": {V3Vector: a.Vector, V3Score: a.Score}}
	}
	if a.URL != "" {
		v.References = []string{a.URL}
	}
	return v, nil
}

// Fill writes advisories into a database.
func Fill(tx *bolt.Tx, advisories []mini.Advisory, built time.Time) error {
	var c db.Config
	if _, err := tx.CreateBucketIfNotExists([]byte("vulnerability")); err != nil {
		return fmt.Errorf("make bucket: %w", err)
	}
	for _, a := range advisories {
		bucket, source := bucketOf(a)
		entry := advisoryOf(a)
		v, err := vulnerabilityOf(a, built)
		if err := errors.Join(
			err, c.PutDataSource(tx, bucket, source), c.PutAdvisory(tx, []string{bucket, a.Package}, a.ID, &entry), c.PutVulnerability(tx, a.ID, v),
		); err != nil {
			return fmt.Errorf("put advisory %s: %w", a.ID, err)
		}
	}
	return nil
}

// Make writes the layer of a database's artifact: an archive of the database and what Trivy says of it.
func Make(file string, advisories *mini.Advisories, schema int) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".database-")
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := Write(dir, advisories, schema); err != nil {
		return err
	}
	layer, err := pack(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(file, layer, permissions)
}

// Write makes the two files of a database.
func Write(dir string, advisories *mini.Advisories, schema int) (err error) {
	database, err := bolt.Open(db.Path(dir), permissions, &bolt.Options{NoSync: true, NoGrowSync: true})
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	err = database.Update(func(tx *bolt.Tx) error { return Fill(tx, advisories.Advisories, advisories.BuiltAt) })
	if err := errors.Join(err, database.Close()); err != nil {
		return err
	}
	said, err := json.Marshal(metadata.Metadata{Version: schema, UpdatedAt: advisories.BuiltAt, NextUpdate: advisories.BuiltAt.Add(24 * time.Hour)})
	if err != nil {
		return fmt.Errorf("make metadata: %w", err)
	}
	return os.WriteFile(metadata.Path(dir), said, permissions)
}

func pack(dir string) ([]byte, error) {
	var layer bytes.Buffer
	compressed := gzip.NewWriter(&layer)
	archive := tar.NewWriter(compressed)
	for _, name := range []string{"trivy.db", "metadata.json"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("pack database: %w", err)
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: permissions, Size: int64(len(content))}); err != nil {
			return nil, fmt.Errorf("pack database: %w", err)
		}
		if _, err := archive.Write(content); err != nil {
			return nil, fmt.Errorf("pack database: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack database: %w", err)
	}
	return layer.Bytes(), nil
}
