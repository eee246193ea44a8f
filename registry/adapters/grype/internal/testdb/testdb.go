// SPDX-License-Identifier: Apache-2.0

// Package testdb makes small databases in Grype's format, version 6, from the advisories that mini reads. Grype's own writer makes them.
package testdb

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/klauspost/compress/zstd"
	"gorm.io/gorm"

	"github.com/scanyard/scanyard/registry/internal/mini"
)

// Schema is that of the databases.
const Schema = v6.ModelVersion

const permissions = 0o600

// Options are what a test wants of a database.
type Options struct {
	Schema int
	// Ends are the dates when releases of distributions give no more fixes, as "debian 12".
	Ends map[string]time.Time
}

// providers are where advisories of ecosystems are from.
var providers = map[string]string{"npm": "github", "go": "github"}

// ecosystems are the names of ecosystems in the database.
var ecosystems = map[string]string{"npm": "npm", "go": "go-module"}

// formats are those of versions.
var formats = map[string]string{"npm": "semver", "go": "golang", "debian": "dpkg", "alpine": "apk"}

func vulnerabilityOf(a mini.Advisory, built time.Time) *v6.VulnerabilityHandle {
	provider := providers[a.Ecosystem]
	if provider == "" {
		provider = a.Ecosystem
	}
	blob := &v6.VulnerabilityBlob{ID: a.ID, Description: a.Title, Severities: []v6.Severity{{
		Scheme: v6.SeveritySchemeCHMLN, Value: strings.ToLower(a.Severity), Rank: 1,
	}}}
	if a.Vector != "" {
		blob.Severities = append(blob.Severities, v6.Severity{
			Scheme: v6.SeveritySchemeCVSS, Value: v6.CVSSSeverity{Vector: a.Vector, Version: "3.1"}, Source: "nvd@nist.gov", Rank: 2,
		})
	}
	if a.URL != "" {
		blob.References = []v6.Reference{{URL: a.URL}}
	}
	for _, alias := range a.Aliases {
		if alias != a.ID {
			blob.Aliases = append(blob.Aliases, alias)
		}
	}
	return &v6.VulnerabilityHandle{
		Name: a.ID, Status: v6.VulnerabilityActive, PublishedDate: &built, ProviderID: provider,
		Provider: &v6.Provider{ID: provider, Version: "1", Processor: "testdb", DateCaptured: &built}, BlobValue: blob,
	}
}

var states = map[string]v6.FixStatus{"will_not_fix": v6.WontFixStatus, "affected": v6.NotFixedStatus}

func packageOf(a mini.Advisory, of *v6.VulnerabilityHandle) *v6.AffectedPackageHandle {
	h := &v6.AffectedPackageHandle{
		VulnerabilityID: of.ID, Vulnerability: of, Package: &v6.Package{Name: a.Package, Ecosystem: ecosystems[a.Ecosystem]}, BlobValue: &v6.PackageBlob{},
	}
	if h.Package.Ecosystem == "" {
		major, minor, _ := strings.Cut(a.Release, ".")
		h.OperatingSystem = &v6.OperatingSystem{Name: a.Ecosystem, ReleaseID: a.Ecosystem, MajorVersion: major, MinorVersion: minor}
		h.Package.Ecosystem = map[string]string{"debian": "deb", "alpine": "apk"}[a.Ecosystem]
	}
	for _, r := range a.Ranges {
		var bounds []string
		if r.Introduced != "" {
			bounds = append(bounds, ">="+r.Introduced)
		}
		fix := &v6.Fix{State: v6.NotFixedStatus}
		if r.Fixed != "" {
			bounds = append(bounds, "<"+r.Fixed)
			fix = &v6.Fix{State: v6.FixedStatus, Version: r.Fixed}
		}
		h.BlobValue.Ranges = append(h.BlobValue.Ranges, v6.Range{
			Version: v6.Version{Type: formats[a.Ecosystem], Constraint: strings.Join(bounds, ",")}, Fix: fix,
		})
	}
	if len(a.Ranges) == 0 {
		h.BlobValue.Ranges = []v6.Range{{Version: v6.Version{Type: formats[a.Ecosystem]}, Fix: &v6.Fix{State: states[a.Status]}}}
	}
	return h
}

// Make writes the layer of a database's artifact.
func Make(file string, advisories *mini.Advisories, o Options) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".database-")
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := write(dir, advisories, o); err != nil {
		return err
	}
	return pack(filepath.Join(dir, v6.VulnerabilityDBFileName), file)
}

func write(dir string, advisories *mini.Advisories, o Options) (err error) {
	store, err := v6.NewWriter(v6.Config{DBDirPath: dir})
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, a := range advisories.Advisories {
		of := vulnerabilityOf(a, advisories.BuiltAt)
		if err := store.AddVulnerabilities(of); err != nil {
			return fmt.Errorf("put advisory %s: %w", a.ID, err)
		}
		if err := store.AddAffectedPackages(packageOf(a, of)); err != nil {
			return fmt.Errorf("put package of %s: %w", a.ID, err)
		}
		for _, cwe := range a.CWEs {
			if err := store.AddCWE(&v6.CWEHandle{CVE: a.ID, CWE: cwe, Source: "nvd@nist.gov", Type: "Primary"}); err != nil {
				return fmt.Errorf("put weakness of %s: %w", a.ID, err)
			}
		}
	}
	for release, end := range o.Ends {
		name, number, _ := strings.Cut(release, " ")
		major, minor, _ := strings.Cut(number, ".")
		if _, err := store.UpdateOperatingSystemEOL(v6.OSSpecifier{Name: name, MajorVersion: major, MinorVersion: minor}, &end, nil); err != nil {
			return fmt.Errorf("put end of %s: %w", release, err)
		}
	}
	tables, known := store.(interface{ GetDB() *gorm.DB })
	if !known {
		return errors.New("the writer does not give its tables")
	}
	return tables.GetDB().Exec("UPDATE db_metadata SET build_timestamp = ?, model = ?", advisories.BuiltAt, o.Schema).Error
}

// pack writes an archive of one file.
func pack(name, out string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("pack database: %w", err)
	}
	var layer bytes.Buffer
	compressed, err := zstd.NewWriter(&layer)
	if err != nil {
		return fmt.Errorf("pack database: %w", err)
	}
	archive := tar.NewWriter(compressed)
	header := &tar.Header{Name: filepath.Base(name), Typeflag: tar.TypeReg, Mode: permissions, Size: int64(len(content))}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("pack database: %w", err)
	}
	if _, err := archive.Write(content); err != nil {
		return fmt.Errorf("pack database: %w", err)
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("pack database: %w", err)
	}
	return os.WriteFile(out, layer.Bytes(), permissions)
}
