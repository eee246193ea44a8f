// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/vulnerability"
	"github.com/anchore/packageurl-go"
	"github.com/anchore/syft/syft/file"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
)

// systemTypes are those of packages of a distribution, binaryTypes those of what is inside programs: in images Syft reads Go's modules
// and Rust's crates from nowhere else.
var (
	systemTypes = []syftpkg.Type{syftpkg.AlpmPkg, syftpkg.ApkPkg, syftpkg.DebPkg, syftpkg.PortagePkg, syftpkg.RpmPkg}
	binaryTypes = []syftpkg.Type{syftpkg.BinaryPkg, syftpkg.GoModulePkg, syftpkg.GraalVMNativeImagePkg, syftpkg.RustPkg}
)

// findings gives the findings of matches. One vulnerability of a package that several sources tell under aliases is one finding, by the
// first of its names.
func (b bill) findings(matches []match.Match, layers []protocol.Layer, ended bool) []protocol.Finding {
	var findings []protocol.Finding
	known := map[pkg.ID][]int{}
	for _, m := range matches {
		f := findingOf(m, ended)
		b.place(&f, m.Package, layers)
		same := slices.IndexFunc(known[m.Package.ID], func(i int) bool { return areOne(findings[i], f) })
		if same >= 0 {
			first := &findings[known[m.Package.ID][same]]
			first.Aliases = merged(first.VulnerabilityID, first.Aliases, append([]string{f.VulnerabilityID}, f.Aliases...))
			continue
		}
		known[m.Package.ID] = append(known[m.Package.ID], len(findings))
		findings = append(findings, f)
	}
	return findings
}

func areOne(a, b protocol.Finding) bool {
	return a.VulnerabilityID == b.VulnerabilityID || slices.Contains(a.Aliases, b.VulnerabilityID) || slices.Contains(b.Aliases, a.VulnerabilityID)
}

// merged gives the names of a vulnerability beside the one that it goes by, in order.
func merged(id string, lists ...[]string) []string {
	var all []string
	for _, alias := range slices.Concat(lists...) {
		if alias != "" && alias != id {
			all = append(all, alias)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func findingOf(m match.Match, ended bool) protocol.Finding {
	v := m.Vulnerability
	f := protocol.Finding{
		VulnerabilityID: v.ID, FixedVersions: v.Fix.Versions, Status: statusOf(v.Fix.State), Severity: protocol.Unknown,
		Package: protocol.FindingPackage{Name: m.Package.Name, Version: m.Package.Version, PURL: m.Package.PURL, Type: string(m.Package.Type)},
	}
	if ended && f.Status != protocol.StatusFixed && slices.Contains(systemTypes, m.Package.Type) {
		f.Status = protocol.StatusEndOfLife
	}
	if purl, err := packageurl.FromString(m.Package.PURL); err == nil {
		f.Package.Type = purl.Type
	}
	if up := m.Package.Upstreams; len(up) > 0 && up[0].Name != m.Package.Name {
		f.Package.SourceName = up[0].Name
	}
	var related []string
	for _, r := range v.RelatedVulnerabilities {
		related = append(related, r.ID)
	}
	if handle, told := v.Internal.(*v6.VulnerabilityHandle); told && handle != nil {
		f.SeveritySource = handle.ProviderID
		f.PublishedAt, f.ModifiedAt = report.Date(handle.PublishedDate), report.Date(handle.ModifiedDate)
		if handle.BlobValue != nil {
			related = append(related, handle.BlobValue.Aliases...)
		}
	}
	f.Aliases = merged(v.ID, related)
	var links []string
	for _, a := range v.Advisories {
		links = append(links, a.Link)
	}
	if v.Metadata != nil {
		describeFinding(&f, *v.Metadata, links)
	}
	return f
}

// describeFinding takes over what the database says of the vulnerability itself.
func describeFinding(f *protocol.Finding, m vulnerability.Metadata, links []string) {
	if severity, known := severities[vulnerability.ParseSeverity(m.Severity)]; known {
		f.Severity = severity
	}
	f.Description, f.PrimaryURL = report.Cut(m.Description, protocol.MaxDescription), m.DataSource
	if len(f.PrimaryURL) > report.MaxReference {
		f.PrimaryURL = ""
	}
	f.References = report.References(slices.Concat([]string{m.DataSource}, m.URLs, links))
	for _, c := range m.Cvss {
		one := protocol.CVSS{Source: cmp.Or(c.Source, f.SeveritySource), Version: c.Version, Vector: c.Vector, Score: c.Metrics.BaseScore}
		if !slices.Contains(f.CVSS, one) {
			f.CVSS = append(f.CVSS, one)
		}
	}
	f.Score = report.Scores(f.CVSS)
	for _, c := range m.CWEs {
		f.CWEs = append(f.CWEs, c.CWE)
	}
	slices.Sort(f.CWEs)
	f.CWEs = slices.Compact(f.CWEs)
	for _, k := range m.KnownExploited {
		if k.DateAdded != nil {
			f.KEV = &protocol.KEV{DateAdded: day(k.DateAdded), DueDate: day(k.DueDate)}
			break
		}
	}
}

// day tells a date of a catalogue, which has no time; "" is not known.
func day(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

var severities = map[vulnerability.Severity]string{
	vulnerability.CriticalSeverity: protocol.Critical, vulnerability.HighSeverity: protocol.High, vulnerability.MediumSeverity: protocol.Medium,
	vulnerability.LowSeverity: protocol.Low, vulnerability.NegligibleSeverity: protocol.Low,
}

func statusOf(s vulnerability.FixState) string {
	switch s {
	case vulnerability.FixStateFixed:
		return protocol.StatusFixed
	case vulnerability.FixStateNotFixed:
		return protocol.StatusAffected
	case vulnerability.FixStateWontFix:
		return protocol.StatusWillNotFix
	case vulnerability.FixStateUnknown:
	}
	return protocol.StatusUnknown
}

// place tells where the package is.
func (b bill) place(f *protocol.Finding, p pkg.Package, layers []protocol.Layer) {
	at, known := b.places[p.ID]
	for _, l := range p.Locations.ToSlice() {
		if !known {
			at, known = l.Coordinates, true
		}
	}
	f.Layer = layerOf(at, layers)
	if slices.Contains(systemTypes, p.Type) {
		f.Class, f.Target = protocol.ClassOS, protocol.TargetOS
		return
	}
	f.Class = protocol.ClassLang
	if slices.Contains(binaryTypes, p.Type) {
		f.Class = protocol.ClassBinary
	}
	f.Package.Path = strings.TrimPrefix(at.RealPath, "/")
	f.Target = cmp.Or(f.Package.Path, string(p.Type))
}

// layerOf finds the place of a layer. Of a layer whose place is not known nothing is told.
func layerOf(at file.Coordinates, layers []protocol.Layer) *protocol.FindingLayer {
	index := slices.IndexFunc(layers, func(l protocol.Layer) bool {
		return at.FileSystemID != "" && (l.DiffID == at.FileSystemID || l.Digest == at.FileSystemID)
	})
	if index < 0 {
		return nil
	}
	return &protocol.FindingLayer{Digest: layers[index].Digest, DiffID: layers[index].DiffID, Index: index}
}
