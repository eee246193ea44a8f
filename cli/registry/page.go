// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/report"
)

// errNoPage says that the format is not known, which a test would see.
var errNoPage = errors.New("this program cannot write pages")

// printPage writes the page of the findings of a Scan, made of those of an image.
func printPage(ctx context.Context, out io.Writer, image *reportsv1.Image, each eachOf, now time.Time) error {
	format, known := report.FormatNamed(formatHTML)
	if !known {
		return errNoPage
	}
	source := func(_ context.Context, do func([]byte) error) error {
		return each(func(f *reportsv1.VulnerabilityFinding, _ []byte) error {
			element, err := json.Marshal(elementOf(image, f))
			if err != nil {
				return fmt.Errorf("write a finding: %w", err)
			}
			return do(element)
		})
	}
	page, err := report.New(ctx, report.Input{Findings: source, Scan: report.Scan{
		Title: called(image), Name: image.Name, Namespace: image.Namespace, Type: "registry", Parameters: []string{image.Spec.Platform, image.Spec.Digest},
		Finished: timeOf(image, now),
	}})
	if err != nil {
		return err
	}
	return page.Write(ctx, out, format)
}

func timeOf(image *reportsv1.Image, now time.Time) string {
	if at := image.Status.ScannedAt; at != nil {
		now = at.Time
	}
	return now.UTC().Format(time.RFC3339)
}

// severityOfFindings are the severities of findings of Scans.
var severityOfFindings = map[string]string{
	"CRITICAL": finding.High, "HIGH": finding.High, "MEDIUM": finding.Medium, "LOW": finding.Low,
}

// elementOf is a vulnerability as a finding of a Scan has it.
func elementOf(image *reportsv1.Image, f *reportsv1.VulnerabilityFinding) map[string]any {
	mitigation := "There is no fixed version yet."
	if len(f.FixedVersions) > 0 {
		mitigation = fmt.Sprintf("Update the package %s to %s.", f.Package.Name, strings.Join(f.FixedVersions, " or "))
	}
	references := []map[string]string{{"type": "ID", "value": f.VulnerabilityID}}
	if strings.HasPrefix(f.VulnerabilityID, "CVE-") {
		references[0]["type"] = "CVE"
	}
	if f.PrimaryURL != "" {
		references = append(references, map[string]string{"type": "URL", "value": f.PrimaryURL})
	}
	return map[string]any{
		"id": f.Fingerprint, "fingerprint": f.Fingerprint, "category": "Image Vulnerability", "location": "oci://" + called(image),
		"name":        cmp.Or(f.Title, fmt.Sprintf("Vulnerability in Dependency %s (%s)", f.Package.Name, f.Package.Version)),
		"description": f.Description, "mitigation": mitigation, "osi_layer": "NOT_APPLICABLE", "references": references,
		"severity": cmp.Or(severityOfFindings[f.Severity], finding.Informational),
		"attributes": map[string]any{
			"vulnerabilityId": f.VulnerabilityID, "packageName": f.Package.Name, "installedVersion": f.Package.Version,
			"fixedVersion": strings.Join(f.FixedVersions, ", "), "purl": f.Package.PURL, "foundIn": f.Target,
			"severityOfEngine": f.Severity, "cvssScore": score(f.Score), "layer": layerOf(f.Layer),
			"command": commandOf(image, f.Layer),
		},
	}
}
