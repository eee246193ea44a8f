// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	dbtypes "github.com/aquasecurity/trivy-db/pkg/types"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/aquasecurity/trivy/pkg/types"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// maxTitle and maxReference bound what else is text of a database.
const (
	maxTitle     = 1 << 10
	maxReference = 1 << 10
)

// binaries are the types of programs that know their modules.
var binaries = []ftypes.TargetType{ftypes.GoBinary, ftypes.RustBinary}

// findingsOf gives the findings of a match in order, each once.
func findingsOf(results types.Results, b bill, layers []protocol.Layer) []protocol.Finding {
	var findings []protocol.Finding
	for _, r := range results {
		packages := map[string]ftypes.Package{}
		for _, p := range r.Packages {
			packages[p.Identifier.UID] = p
		}
		for _, v := range r.Vulnerabilities {
			f := findingOf(v, packages[v.PkgIdentifier.UID])
			f.place(r, v)
			f.Layer = layerOf(v.Layer, b.diffIDs, layers)
			findings = append(findings, f.Finding)
		}
	}
	slices.SortFunc(findings, protocol.Compare)
	return slices.CompactFunc(findings, func(a, b protocol.Finding) bool { return protocol.Compare(a, b) == 0 })
}

type finding struct{ protocol.Finding }

func findingOf(v types.DetectedVulnerability, p ftypes.Package) finding {
	f := finding{protocol.Finding{
		VulnerabilityID: v.VulnerabilityID, Aliases: v.VendorIDs, FixedVersions: split(v.FixedVersion), Status: statusOf(v.Status),
		//nolint:staticcheck // deprecated as a member of the database; here it is the one that Trivy has chosen
		Severity: cmp.Or(v.Severity, protocol.Unknown), SeveritySource: string(v.SeveritySource), CWEs: v.CweIDs,
		Title: cut(v.Title, maxTitle), Description: cut(v.Description, protocol.MaxDescription), PrimaryURL: v.PrimaryURL,
		PublishedAt: dateOf(v.PublishedDate), ModifiedAt: dateOf(v.LastModifiedDate),
		Package: protocol.FindingPackage{Name: v.PkgName, Version: v.InstalledVersion},
	}}
	if p.SrcName != v.PkgName {
		f.Package.SourceName = p.SrcName
	}
	if purl := v.PkgIdentifier.PURL; purl != nil {
		f.Package.PURL, f.Package.Type = purl.String(), purl.Type
	}
	for _, r := range v.References {
		if len(r) <= maxReference && len(f.References) < protocol.MaxReferences {
			f.References = append(f.References, r)
		}
	}
	f.CVSS, f.Score = scoresOf(v.CVSS)
	return f
}

// place tells where the package is.
func (f *finding) place(r types.Result, v types.DetectedVulnerability) {
	if f.Package.Type == "" {
		f.Package.Type = string(r.Type)
	}
	if r.Class == types.ClassOSPkg {
		f.Class, f.Target = protocol.ClassOS, protocol.TargetOS
		return
	}
	f.Class, f.Package.Path = protocol.ClassLang, v.PkgPath
	if slices.Contains(binaries, r.Type) {
		f.Class = protocol.ClassBinary
	}
	if f.Package.Path == "" && !slices.Contains(ftypes.AggregatingTypes, r.Type) {
		f.Package.Path = r.Target
	}
	f.Target = cmp.Or(f.Package.Path, r.Target)
}

func split(versions string) []string {
	var list []string
	for version := range strings.SplitSeq(versions, ",") {
		if version = strings.TrimSpace(version); version != "" {
			list = append(list, version)
		}
	}
	return list
}

func statusOf(s dbtypes.Status) string {
	switch s {
	case dbtypes.StatusFixed:
		return protocol.StatusFixed
	case dbtypes.StatusAffected, dbtypes.StatusFixDeferred:
		return protocol.StatusAffected
	case dbtypes.StatusWillNotFix:
		return protocol.StatusWillNotFix
	case dbtypes.StatusEndOfLife:
		return protocol.StatusEndOfLife
	default:
		return protocol.StatusUnknown
	}
}

func dateOf(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// cut shortens a text to some bytes, between two characters.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// scoresOf lists what each source says, in order, and the highest score of the newest version of CVSS that there is.
func scoresOf(vendors dbtypes.VendorCVSS) (list []protocol.CVSS, score float64) {
	for source, c := range vendors {
		for _, one := range []protocol.CVSS{
			{Version: "2.0", Vector: c.V2Vector, Score: c.V2Score},
			{Version: versionOf(c.V3Vector), Vector: c.V3Vector, Score: c.V3Score},
			{Version: "4.0", Vector: c.V40Vector, Score: c.V40Score},
		} {
			if one.Vector == "" && one.Score == 0 {
				continue
			}
			one.Source = string(source)
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b protocol.CVSS) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Version, b.Version))
	})
	newest := ""
	for _, c := range list {
		switch major, _, _ := strings.Cut(c.Version, "."); {
		case c.Score == 0 || major < newest:
		case major > newest:
			newest, score = major, c.Score
		default:
			score = max(score, c.Score)
		}
	}
	return list, score
}

// versionOf is that of a vector of CVSS 3.
func versionOf(vector string) string {
	if strings.HasPrefix(vector, "CVSS:3.0/") {
		return "3.0"
	}
	return "3.1"
}

// layerOf finds the place of a layer. Of a layer whose place is not known nothing is told.
func layerOf(l ftypes.Layer, diffIDs []string, layers []protocol.Layer) *protocol.FindingLayer {
	if l.DiffID == "" && l.Digest == "" {
		return nil
	}
	index := slices.IndexFunc(layers, func(known protocol.Layer) bool {
		return l.DiffID != "" && known.DiffID == l.DiffID || l.DiffID == "" && known.Digest == l.Digest
	})
	if index < 0 {
		index = slices.Index(diffIDs, l.DiffID)
	}
	if index < 0 {
		return nil
	}
	return &protocol.FindingLayer{Digest: l.Digest, DiffID: l.DiffID, Index: index}
}
