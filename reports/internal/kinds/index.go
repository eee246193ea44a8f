// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/spdx"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var severityRanks = map[wgpolicyv1.Severity]rows.Severity{
	wgpolicyv1.SeverityCritical: rows.Critical, wgpolicyv1.SeverityHigh: rows.High, wgpolicyv1.SeverityMedium: rows.Medium,
	wgpolicyv1.SeverityLow: rows.Low, wgpolicyv1.SeverityInfo: rows.Info,
}

var resultCodes = map[wgpolicyv1.Result]rows.Result{
	wgpolicyv1.ResultPass: rows.Pass, wgpolicyv1.ResultFail: rows.Fail, wgpolicyv1.ResultWarn: rows.Warn,
	wgpolicyv1.ResultError: rows.Error, wgpolicyv1.ResultSkip: rows.Skip,
}

var vulnerabilityRanks = map[string]rows.Severity{"CRITICAL": rows.Critical, "HIGH": rows.High, "MEDIUM": rows.Medium, "LOW": rows.Low}

func indexReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*Report)
	if !ok {
		return nil, fmt.Errorf("%T is no Report", obj)
	}
	return setOfResults(&report.ObjectMeta, report.Source, report.Results).Indexer(), nil
}

func indexClusterReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*ClusterReport)
	if !ok {
		return nil, fmt.Errorf("%T is no ClusterReport", obj)
	}
	return setOfResults(&report.ObjectMeta, report.Source, report.Results).Indexer(), nil
}

// newSet begins a set with the target and the run, where the object names them. The target is what the Scan's label says, where scan types
// are told apart by their source; else the schedule; else what was scanned by which means; else the Scan itself, which is compared with
// no other.
func newSet(meta *metav1.ObjectMeta) *rows.Set {
	labels := meta.Labels
	set := &rows.Set{Namespace: meta.Namespace}
	if labels[policyreport.LabelScan] == "" && labels[policyreport.LabelSchedule] == "" {
		return set // a report of others
	}
	if set.Target = labels[executionv1.LabelTarget]; set.Target != "" {
		set.Source = policyreport.SourceOf(labels[policyreport.LabelScanType])
	}
	set.Target = cmp.Or(set.Target, labels[policyreport.LabelSchedule], meta.Annotations[policyreport.AnnotationTarget], labels[policyreport.LabelScan])
	part, partErr := strconv.Atoi(labels[policyreport.LabelChunk])
	parts, partsErr := strconv.Atoi(meta.Annotations[policyreport.AnnotationChunks])
	if run := meta.Annotations[policyreport.AnnotationRun]; set.Target != "" && run != "" && partErr == nil && partsErr == nil && part >= 0 && part < parts {
		set.Run, set.Part, set.Parts = run, part, parts
	}
	return set
}

func setOfResults(meta *metav1.ObjectMeta, source string, results []wgpolicyv1.PolicyReportResult) *rows.Set {
	set := newSet(meta)
	set.Rows = make([]rows.Row, len(results))
	for i := range results {
		result := &results[i]
		row := &set.Rows[i]
		*row = rows.Row{
			Source: result.Source, Policy: result.PolicyName(), Rule: result.Rule, Category: result.Category,
			Severity: severityRanks[result.Severity], Result: resultCodes[result.Result], Score: scoreOf(result.Properties),
			Exception: policyreport.ExceptionOf(result.Properties), Suppressed: policyreport.Suppressed(result.Properties),
			Copied: policyreport.IsCopy(result.Properties),
		}
		if row.Source == "" {
			row.Source = source
		}
		if result.Timestamp != nil {
			row.Time = time.Unix(result.Timestamp.Seconds, int64(result.Timestamp.Nanos)).UTC()
		}
		if len(result.Resources) > 0 {
			resource := &result.Resources[0]
			row.ResourceKind, row.ResourceNamespace, row.ResourceName = resource.Kind, resource.Namespace, resource.Name
		}
		if row.ResourceName == "" {
			row.Known = row.Fingerprint() // what the finding is known by does not change with where it was found
			row.ResourceName = targetOf(set.Target, result.Properties[propertyLocation])
		}
	}
	return set
}

// propertyLocation is where the results of scans say where they were found.
const propertyLocation = "location"

// targetOf is what a result is about that names no object: the host of its location, else the target of its report. A report of others
// has none.
func targetOf(target, location string) string {
	if target == "" {
		return ""
	}
	if parsed, err := url.Parse(location); err == nil && parsed.Hostname() != "" {
		return parsed.Hostname()
	}
	return target
}

// scoreOf is the first score from 0 to 10 among the properties that hold one.
func scoreOf(properties map[string]string) *float64 {
	for _, name := range []string{"cvss", "cvssScore", "cvss_score", "score"} {
		score, err := strconv.ParseFloat(strings.TrimSpace(properties[name]), 64)
		if err == nil && score >= 0 && score <= 10 {
			return &score
		}
	}
	return nil
}

// indexVulnerabilityReport leaves the rows of findings alone that were streamed, and so are not in the object.
func indexVulnerabilityReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*reportsv1.VulnerabilityReport)
	if !ok {
		return nil, fmt.Errorf("%T is no VulnerabilityReport", obj)
	}
	row := rowOfReport(report)
	if report.Spec.ReportOmitted {
		return putting(row), nil
	}
	set := SetOfFindings(report)
	for i := range report.Spec.Findings {
		set.Rows = append(set.Rows, RowOfFinding(report, &report.Spec.Findings[i]))
	}
	set.Whole()
	return func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
		if err := set.Indexer()(ctx, tx, object, at); err != nil {
			return err
		}
		return row.Put(ctx, tx, object)
	}, nil
}

// SetOfFindings begins the rows of a report. Its target is what a tag leads to, or a digest without one, for one platform: what a rebuilt
// tag does not have any more is fixed.
func SetOfFindings(report *reportsv1.VulnerabilityReport) *rows.Set {
	return &rows.Set{Namespace: report.Namespace, Target: report.Spec.Target()}
}

// RowOfFinding is what is asked of a finding.
func RowOfFinding(report *reportsv1.VulnerabilityReport, finding *reportsv1.VulnerabilityFinding) rows.Row {
	row := rows.Row{
		Policy: finding.VulnerabilityID, Rule: finding.Package.Name, Category: finding.Class,
		Severity: vulnerabilityRanks[finding.Severity], Result: rows.Fail, Score: finding.Score,
		ResourceKind: "Image", ResourceName: report.Spec.Digest, Suppressed: finding.Suppressed != nil, Known: Fingerprint(&report.Spec.ImageRef, finding),
		Package: PackageOf(finding),
	}
	if report.Spec.Provenance != nil && report.Spec.Provenance.Engine != nil {
		row.Source = report.Spec.Provenance.Engine.Name
	}
	if finding.PublishedAt != nil {
		row.Time = finding.PublishedAt.Time
	}
	return row
}

// PackageOf is what is asked of the package of a finding.
func PackageOf(finding *reportsv1.VulnerabilityFinding) *rows.Package {
	return &rows.Package{Type: finding.Package.Type, Version: finding.Package.Version, Fixable: len(finding.FixedVersions) > 0}
}

// Fingerprint is what a finding is known by, also in a rebuilt tag.
func Fingerprint(image *reportsv1.ImageRef, finding *reportsv1.VulnerabilityFinding) string {
	parts := []string{
		image.Repository, image.Tag, image.Platform, finding.VulnerabilityID, finding.Package.Type, finding.Package.Name, finding.Target,
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// putting writes a row.
func putting(row *images.Row) mvcc.Indexer {
	return func(ctx context.Context, tx *sqldb.Tx, object int64, _ time.Time) error {
		return row.Put(ctx, tx, object)
	}
}

func indexImage(obj runtime.Object) (mvcc.Indexer, error) {
	image, ok := obj.(*reportsv1.Image)
	if !ok {
		return nil, fmt.Errorf("%T is no Image", obj)
	}
	spec, status := &image.Spec, &image.Status
	row := &images.Row{
		Kind: ImageNumber, Namespace: image.Namespace, Name: image.Name, Image: image.Name,
		RegistryUID: spec.Registry.UID, Registry: spec.Registry.Name, Host: spec.Registry.Host,
		Repository: spec.Repository, Tag: spec.Tag, Digest: spec.Digest, IndexDigest: spec.IndexDigest, Platform: spec.Platform,
		Bytes: spec.CompressedBytes, State: status.State, Presence: string(status.Presence),
	}
	row.Critical, row.High = worst(status.Vulnerabilities)
	addWork(row, status.Work)
	return putting(row), nil
}

func addWork(row *images.Row, work *reportsv1.Work) {
	if work == nil {
		return
	}
	row.JobUID, row.Attempt, row.Lost = jobOf(work), int64(work.Attempt), int64(work.Lost)
	if work.NotBefore != nil {
		row.NotBefore = work.NotBefore.UnixMilli()
	}
}

func indexRepository(obj runtime.Object) (mvcc.Indexer, error) {
	repository, ok := obj.(*reportsv1.Repository)
	if !ok {
		return nil, fmt.Errorf("%T is no Repository", obj)
	}
	registry := &repository.Spec.Registry
	row := &images.Row{
		Kind: RepositoryNumber, Namespace: repository.Namespace, Name: repository.Name, RegistryUID: registry.UID, Registry: registry.Name,
		Host: registry.Host, Repository: repository.Spec.Repository, State: repository.Status.State,
	}
	addWork(row, repository.Status.Work)
	return putting(row), nil
}

// rowOfRef begins the row of what is about an image.
func rowOfRef(kind int, meta *metav1.ObjectMeta, ref *reportsv1.ImageRef, image string) *images.Row {
	registry := registryOf(ref)
	return &images.Row{
		Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Image: image, RegistryUID: registry.UID, Registry: registry.Name, Host: registry.Host,
		Repository: ref.Repository, Tag: ref.Tag, Digest: ref.Digest, IndexDigest: ref.IndexDigest, Platform: ref.Platform,
	}
}

func rowOfReport(report *reportsv1.VulnerabilityReport) *images.Row {
	row := rowOfRef(VulnerabilityReportNumber, &report.ObjectMeta, &report.Spec.ImageRef, report.Spec.Image)
	row.Critical, row.High = worst(report.Spec.Summary)
	row.DatabaseVersion = databaseOf(&report.Spec).Version
	if provenance := report.Spec.Provenance; provenance != nil {
		if provenance.Adapter != nil {
			row.Adapter = provenance.Adapter.Name
		}
		if provenance.Engine != nil {
			row.Engine, row.EngineVersion = provenance.Engine.Name, provenance.Engine.Version
		}
	}
	return row
}

// indexSBOM keeps a document that is in the object as one that was streamed, too, so that both are read and matched alike.
func indexSBOM(obj runtime.Object) (mvcc.Indexer, error) {
	sbom, ok := obj.(*reportsv1.SBOM)
	if !ok {
		return nil, fmt.Errorf("%T is no SBOM", obj)
	}
	row := rowOfRef(SBOMNumber, &sbom.ObjectMeta, &sbom.Spec.ImageRef, sbom.Spec.Image)
	if engine := sbom.Spec.Engine; engine != nil {
		row.Engine, row.EngineVersion = engine.Name, engine.Version
	}
	if sbom.Spec.SBOM == nil {
		return putting(row), nil
	}
	document := sbom.Spec.SBOM.Raw
	var purls []string
	// A document that is no SPDX is kept as it is: it has no packages that could be asked for.
	if _, err := spdx.Read(bytes.NewReader(document), func(p *spdx.Package) error {
		purls = append(purls, p.PURL())
		return nil
	}); err != nil {
		purls = nil
	}
	purls = slices.DeleteFunc(purls, func(purl string) bool { return purl == "" })
	return func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
		if err := row.Put(ctx, tx, object); err != nil {
			return err
		}
		content, fresh, err := contents.Put(ctx, tx, object, FormatSPDX, document, at)
		if err != nil {
			return err
		}
		if fresh {
			if err := images.AddPackages(ctx, tx, content, purls); err != nil {
				return err
			}
		}
		return images.Share(ctx, tx, object, content, false)
	}, nil
}

// Formats of documents.
const (
	FormatSPDX      = "spdx-json"
	FormatCycloneDX = "cyclonedx-json"
	FormatFindings  = "findings"
	FormatTags      = "tags"
)

// indexDatabase puts the version of the data into the order of those that there were.
func indexDatabase(obj runtime.Object) (mvcc.Indexer, error) {
	database, ok := obj.(*reportsv1.VulnerabilityDatabase)
	if !ok {
		return nil, fmt.Errorf("%T is no VulnerabilityDatabase", obj)
	}
	name, version := database.Name, database.Status.Version
	var built int64
	if database.Status.BuiltAt != nil {
		built = database.Status.BuiltAt.UnixMilli()
	}
	return func(ctx context.Context, tx *sqldb.Tx, _ int64, _ time.Time) error {
		if version == "" {
			return nil
		}
		_, err := images.NoteDatabase(ctx, tx, name, version, built)
		return err
	}, nil
}

// Unindex removes what is kept beside an object that is deleted.
func Unindex(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
	if err := rows.Drop(ctx, tx, object, at); err != nil {
		return err
	}
	return images.Drop(ctx, tx, object)
}
