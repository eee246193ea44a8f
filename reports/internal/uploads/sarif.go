// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// levels are SARIF's for our severities.
var levels = map[string]string{"CRITICAL": "error", "HIGH": "error", "MEDIUM": "warning"}

func levelOf(severity string) string {
	if level := levels[severity]; level != "" {
		return level
	}
	return "note"
}

type object = map[string]any

// rule describes a vulnerability.
func rule(f *reportsv1.VulnerabilityFinding) object {
	title := f.Title
	if title == "" {
		title = f.VulnerabilityID + " in " + f.Package.Name
	}
	whole := f.Description
	if whole == "" {
		whole = title
	}
	fixed := strings.Join(f.FixedVersions, ", ")
	text := fmt.Sprintf("Package: %s\nInstalled: %s\nFixed: %s\n%s", f.Package.Name, f.Package.Version, fixed, f.PrimaryURL)
	const table = "**%s**\n\n| package | installed | fixed |\n|---|---|---|\n| %s | %s | %s |\n"
	markdown := fmt.Sprintf(table, f.VulnerabilityID, f.Package.Name, f.Package.Version, fixed)
	if f.PrimaryURL != "" {
		markdown += fmt.Sprintf("\n[%s](%s)\n", f.VulnerabilityID, f.PrimaryURL)
	}
	severity := f.Severity
	if severity == "" {
		severity = "UNKNOWN"
	}
	properties := object{"tags": []string{"security", "vulnerability", severity}, "precision": "very-high"}
	if f.Score != nil {
		properties["security-severity"] = strconv.FormatFloat(*f.Score, 'f', 1, 64)
	}
	made := object{
		"id": f.VulnerabilityID, "name": f.Class, "shortDescription": object{"text": title}, "fullDescription": object{"text": whole},
		"help": object{"text": text, "markdown": markdown}, "properties": properties,
	}
	if f.PrimaryURL != "" {
		made["helpUri"] = f.PrimaryURL
	}
	if f.Class == "" {
		delete(made, "name")
	}
	return made
}

// locationOf is a place in an image.
func locationOf(uri string) object {
	return object{"physicalLocation": object{
		"artifactLocation": object{"uri": uri, "uriBaseId": "ROOTPATH"}, "region": object{"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1},
	}}
}

// result is a finding in SARIF.
func result(report *reportsv1.VulnerabilityReport, f *reportsv1.VulnerabilityFinding, index int) object {
	uri := strings.TrimPrefix(f.Target, "/")
	if uri == "" || uri == "os" {
		uri = report.Spec.Repository
	}
	message := fmt.Sprintf("%s in %s %s", f.VulnerabilityID, f.Package.Name, f.Package.Version)
	if len(f.FixedVersions) > 0 {
		message += ", fixed in " + strings.Join(f.FixedVersions, ", ")
	}
	location := locationOf(uri)
	if f.Package.PURL != "" {
		location["logicalLocations"] = []object{{"fullyQualifiedName": f.Package.PURL, "kind": "package"}}
	}
	made := object{
		"ruleId": f.VulnerabilityID, "ruleIndex": index, "level": levelOf(f.Severity), "message": object{"text": message},
		"partialFingerprints": object{"scanyard/v1": f.Fingerprint, shortFingerprint: f.Fingerprint[:min(len(f.Fingerprint), rows.FingerprintLength)]},
		"locations":           []object{location}, "properties": resultProperties(f),
	}
	if f.Suppressed != nil {
		made["suppressions"] = []object{{"kind": "external", "status": "accepted", "justification": cmp.Or(f.Suppressed.Reason, f.Suppressed.Name)}}
	}
	if report.Spec.Provenance != nil && f.FirstSeenAt != nil && report.Spec.Changes != nil {
		made["baselineState"] = "unchanged"
		if began := report.Spec.Provenance.StartedAt; began != nil && !f.FirstSeenAt.Time.Before(began.Time) {
			made["baselineState"] = "new"
		}
	}
	return made
}

// shortFingerprint names the beginning of a fingerprint, which is what is kept of a finding that is gone.
const shortFingerprint = "scanyard/v1-short"

// gone is a finding that the report before had.
type gone struct {
	id, pkg, fingerprint string
	severity             rows.Severity
}

// goneFrom are the findings that were fixed when a report was made, the worst first.
func (s *Service) goneFrom(ctx context.Context, report *reportsv1.VulnerabilityReport) (all []gone, err error) {
	made := report.Spec.Provenance
	if made == nil || made.StartedAt == nil || report.Spec.Changes == nil || report.Spec.Changes.Fixed == 0 {
		return nil, nil
	}
	err = s.store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT v.s, p.s, h.severity, h.fingerprint FROM history h JOIN names v ON v.id = h.policy JOIN names p ON p.id = h.rule
			WHERE h.ns = (SELECT id FROM names WHERE sha = ?) AND h.target = (SELECT id FROM names WHERE sha = ?) AND h.fixed_at >= ?
			ORDER BY h.severity DESC, v.s, p.s, h.fingerprint LIMIT ?`,
			mvcc.Sum([]byte(report.Namespace)), mvcc.Sum([]byte(report.Spec.Target())), made.StartedAt.Unix(), maxFindings)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var g gone
			if err := found.Scan(&g.id, &g.pkg, &g.severity, &g.fingerprint); err != nil {
				return err
			}
			all = append(all, g)
		}
		return found.Err()
	})
	return all, err
}

// severityWords are those of findings.
var severityWords = map[rows.Severity]string{rows.Critical: "CRITICAL", rows.High: "HIGH", rows.Medium: "MEDIUM", rows.Low: "LOW"}

// absent is a finding that is gone, in SARIF.
func absent(report *reportsv1.VulnerabilityReport, g *gone, index int) object {
	return object{
		"ruleId": g.id, "ruleIndex": index, "level": levelOf(severityWords[g.severity]), "baselineState": "absent",
		"message":             object{"text": fmt.Sprintf("%s is no longer in %s", g.id, g.pkg)},
		"partialFingerprints": object{shortFingerprint: g.fingerprint},
		"locations":           []object{locationOf(report.Spec.Repository)},
		"properties":          object{"packageName": g.pkg, "severity": cmp.Or(severityWords[g.severity], "UNKNOWN")},
	}
}

// resultProperties are what SARIF has no place for. What is absent is not known.
func resultProperties(f *reportsv1.VulnerabilityFinding) object {
	properties := object{
		"purl": f.Package.PURL, "packageName": f.Package.Name, "installedVersion": f.Package.Version, "status": f.Status, "severity": f.Severity,
		"severitySource": f.SeveritySource,
	}
	if f.Layer != nil {
		properties["layerDigest"], properties["layerDiffID"] = f.Layer.Digest, f.Layer.DiffID
		if f.Layer.Index != nil {
			properties["layerIndex"] = *f.Layer.Index
		}
	}
	maps.DeleteFunc(properties, func(_ string, value any) bool { return value == "" })
	for name, values := range map[string][]string{"fixedVersions": f.FixedVersions, "aliases": f.Aliases, "cwes": f.CWEs} {
		if len(values) > 0 {
			properties[name] = values
		}
	}
	if len(f.CVSS) > 0 {
		properties["cvss"] = f.CVSS
	}
	if f.KEV != nil {
		properties["kev"] = f.KEV
	}
	if f.EPSS != nil {
		properties["epss"] = f.EPSS
	}
	if f.FirstSeenAt != nil {
		properties["firstSeenAt"] = f.FirstSeenAt
	}
	return properties
}

// rules are the vulnerabilities of a report in the order of their names, as JSON, and the place of each.
func (s *Service) rules(ctx context.Context, report *reportsv1.VulnerabilityReport, before []gone) (ids []string, made map[string][]byte, err error) {
	made = map[string][]byte{}
	err = s.findings(ctx, report, 0, func(_ int, f *reportsv1.VulnerabilityFinding) error {
		if made[f.VulnerabilityID] != nil {
			return nil
		}
		data, err := json.Marshal(rule(f))
		made[f.VulnerabilityID] = data
		return err
	})
	for i := range before {
		g := &before[i]
		if made[g.id] != nil || err != nil {
			continue
		}
		made[g.id], err = json.Marshal(rule(&reportsv1.VulnerabilityFinding{
			VulnerabilityID: g.id, Package: reportsv1.VulnerablePackage{Name: g.pkg}, Severity: severityWords[g.severity],
		}))
	}
	return slices.Sorted(maps.Keys(made)), made, err
}

// homes are where engines are at home.
var homes = map[string]string{"trivy": "https://trivy.dev", "grype": "https://github.com/anchore/grype"}

// driver is who made a report, as JSON that its rules follow.
func driver(report *reportsv1.VulnerabilityReport) ([]byte, error) {
	made := object{"name": "scanyard"}
	if p := report.Spec.Provenance; p != nil && p.Engine != nil && p.Engine.Name != "" {
		made["name"] = p.Engine.Name
		if p.Engine.Version != "" {
			made["version"] = p.Engine.Version
		}
		if home := homes[p.Engine.Name]; home != "" {
			made["informationUri"] = home
		}
	}
	return json.Marshal(made)
}

// about is what follows the results of a run.
func (s *Service) about(ctx context.Context, report *reportsv1.VulnerabilityReport) (object, error) {
	spec := &report.Spec
	registry, host := "", ""
	if spec.Registry != nil {
		registry, host = spec.Registry.Name, spec.Registry.Host
	}
	reference := "oci://" + strings.TrimPrefix(host+"/"+spec.Repository, "/")
	if spec.Tag != "" {
		reference += ":" + spec.Tag
	}
	reference += "@" + spec.Digest
	artifact := object{"location": object{"uri": reference}}
	if sum, ok := strings.CutPrefix(spec.Digest, "sha256:"); ok {
		artifact["hashes"] = object{"sha-256": sum}
	}
	properties := object{"image": reference, "digest": spec.Digest, "platform": spec.Platform, "provenance": spec.Provenance}
	if spec.CurrentAsOf != nil {
		properties["currentAsOf"] = spec.CurrentAsOf
	}
	image := &reportsv1.Image{}
	if err := s.images.Get(ctx, s.images.Key(report.Namespace, report.Name), storage.GetOptions{IgnoreNotFound: true}, image); err != nil {
		return nil, err
	}
	if len(image.Spec.Layers) > 0 {
		properties["layers"] = image.Spec.Layers
	}
	if image.Spec.Created != nil {
		properties["created"] = image.Spec.Created
	}
	return object{
		"automationDetails": object{"id": strings.Join([]string{report.Namespace, registry, spec.Repository, spec.Platform}, "/")},
		"artifacts":         []object{artifact}, "properties": properties,
		"originalUriBaseIds": object{"ROOTPATH": object{"uri": "file:///"}}, "columnKind": "utf16CodeUnits",
	}, nil
}

// getSARIF streams a report as SARIF.
func (s *Service) getSARIF(w http.ResponseWriter, req *http.Request, at target) error {
	ctx := req.Context()
	report, err := s.stored(ctx, at)
	if err != nil {
		return err
	}
	var before []gone
	if req.URL.Query().Get("baseline") == "true" {
		if before, err = s.goneFrom(ctx, report); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/sarif+json")
	out := bufio.NewWriter(w)
	err = s.writeSARIF(ctx, out, report, before)
	if err == nil {
		err = out.Flush()
	}
	abortOn(0, err)
	return nil
}

// elements writes the elements of a list in JSON.
type elements struct {
	out   io.Writer
	begun bool
}

func (e *elements) add(data []byte) error {
	if e.begun {
		if _, err := io.WriteString(e.out, ","); err != nil {
			return err
		}
	}
	e.begun = true
	_, err := e.out.Write(data)
	return err
}

func (e *elements) addObject(made object) error {
	data, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return e.add(data)
}

// results writes what a report has, and what the report before had; places are those of the rules.
func (s *Service) results(ctx context.Context, out io.Writer, report *reportsv1.VulnerabilityReport, before []gone, places map[string]int) error {
	list := &elements{out: out}
	err := s.findings(ctx, report, 0, func(_ int, f *reportsv1.VulnerabilityFinding) error {
		return list.addObject(result(report, f, places[f.VulnerabilityID]))
	})
	for i := range before {
		if err == nil {
			err = list.addObject(absent(report, &before[i], places[before[i].id]))
		}
	}
	return err
}

func (s *Service) writeSARIF(ctx context.Context, out io.Writer, report *reportsv1.VulnerabilityReport, before []gone) error {
	ids, rules, err := s.rules(ctx, report, before)
	if err != nil {
		return err
	}
	driver, err := driver(report)
	if err != nil {
		return err
	}
	const schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	if _, err := fmt.Fprintf(out, `{"$schema":%q,"version":"2.1.0","runs":[{"tool":{"driver":%s,"rules":[`, schema, driver[:len(driver)-1]); err != nil {
		return err
	}
	places := make(map[string]int, len(ids))
	list := &elements{out: out}
	for i, id := range ids {
		places[id] = i
		if err := list.add(rules[id]); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, `]}},"results":[`); err != nil {
		return err
	}
	if err := s.results(ctx, out, report, before, places); err != nil {
		return err
	}
	about, err := s.about(ctx, report)
	if err != nil {
		return err
	}
	rest, err := json.Marshal(about)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "],%s]}\n", rest[1:])
	return err
}
