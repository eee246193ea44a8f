// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

func (e *engine) match(_ context.Context, call serve.Call) (any, error) {
	var params protocol.MatchParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if params.SBOM.Format != protocol.SPDX {
		return nil, protocol.Errorf(protocol.Unsupported, "there is no format %q", params.SBOM.Format)
	}
	o, err := e.database.get(params.DatabaseDir)
	if err != nil {
		return nil, err
	}
	packages, system, err := readSPDX(params.SBOM.Path)
	if err != nil {
		return nil, err
	}
	if params.Image.OS.Family != "" {
		system = params.Image.OS
	}
	found := report.Match{Database: protocol.DatabaseName{Version: o.Version, BuiltAt: o.BuiltAt}, Keys: keysOf(packages, system)}
	for _, p := range packages {
		found.Findings = append(found.Findings, o.findings(p, system)...)
	}
	return found.Write(call, params, Name)
}

// names are those under which a package is asked for, the package's own first.
func (r read) names(system protocol.OS) (ecosystem string, names []string) {
	switch r.Type {
	case typeDeb, typeApk:
		if r.Source != "" && r.Source != r.Name {
			return system.Family, []string{r.Name, r.Source}
		}
		return system.Family, []string{r.Name}
	case typeGo:
		return "go", []string{r.Name}
	}
	return r.Type, []string{strings.ToLower(r.Name)}
}

// keysOf gives the keys of each package, in order of the packages.
func keysOf(packages []read, system protocol.OS) []protocol.PackageKeys {
	byPURL := map[string]protocol.PackageKeys{}
	for _, p := range packages {
		k := protocol.PackageKeys{PURL: p.PURL}
		ecosystem, names := p.names(system)
		for _, name := range names {
			k.Keys = append(k.Keys, protocol.Key(ecosystem, name))
		}
		byPURL[p.PURL] = k
	}
	list := make([]protocol.PackageKeys, 0, len(byPURL))
	for _, purl := range slices.Sorted(maps.Keys(byPURL)) {
		list = append(list, byPURL[purl])
	}
	return list
}

// findings are those of one package: each advisory once, also where it names both the package and its source.
func (o *opened) findings(p read, system protocol.OS) []protocol.Finding {
	var list []protocol.Finding
	seen := map[string]bool{}
	ecosystem, names := p.names(system)
	for i, name := range names {
		version := p.Version
		if i > 0 && p.SourceVersion != "" {
			version = p.SourceVersion
		}
		for _, a := range o.byKey[protocol.Key(ecosystem, name)] {
			fixed, affected := a.affects(p.Type, version, system)
			if affected && !seen[a.ID] {
				seen[a.ID] = true
				list = append(list, p.finding(a, fixed))
			}
		}
	}
	return list
}

// affects tells whether a version has a vulnerability, and the versions that have it no more.
func (a Advisory) affects(kind, version string, system protocol.OS) (fixed []string, affected bool) {
	if a.Release != "" && a.Release != system.Version && !strings.HasPrefix(system.Version, a.Release+".") {
		return nil, false
	}
	if len(a.Ranges) == 0 {
		return nil, true
	}
	for _, r := range a.Ranges {
		if r.Introduced != "" && compareVersions(kind, version, r.Introduced) < 0 {
			continue
		}
		if r.Fixed != "" && compareVersions(kind, version, r.Fixed) >= 0 {
			continue
		}
		affected = true
		if r.Fixed != "" {
			fixed = append(fixed, r.Fixed)
		}
	}
	return fixed, affected
}

func (r read) finding(a Advisory, fixed []string) protocol.Finding {
	class, target := r.class()
	f := protocol.Finding{
		VulnerabilityID: a.ID, Aliases: a.Aliases, Target: target, Class: class, FixedVersions: fixed, Status: a.Status, Severity: a.Severity,
		SeveritySource: a.Source, Score: a.Score, CWEs: a.CWEs, Title: a.Title, PrimaryURL: a.URL,
		Package: protocol.FindingPackage{Name: r.Name, Version: r.Version, Type: r.Type, PURL: r.PURL, SourceName: r.Source, Path: r.Path},
	}
	switch {
	case len(fixed) > 0:
		f.Status = protocol.StatusFixed
	case f.Status == "":
		f.Status = protocol.StatusAffected
	}
	if a.Vector != "" {
		f.CVSS = []protocol.CVSS{{Source: a.Source, Version: "3.1", Vector: a.Vector, Score: a.Score}}
	}
	if a.URL != "" {
		f.References = []string{a.URL}
	}
	if r.From.Digest != "" || r.From.DiffID != "" {
		f.Layer = &protocol.FindingLayer{Digest: r.From.Digest, DiffID: r.From.DiffID, Index: r.From.Index}
	}
	return f
}
