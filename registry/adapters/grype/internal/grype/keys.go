// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/syft/syft/cpe"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
)

// kindCPE is that of keys of vendors and products, anyVendor is asked for by packages whose vendor is not known.
const (
	kindCPE   = "cpe"
	anyVendor = "*"
)

// kinds are the names of ecosystems in keys, where they are others than the database's.
var kinds = map[string]string{
	string(syftpkg.GoModulePkg): "go", string(syftpkg.PythonPkg): "pip", string(syftpkg.GemPkg): "gem", string(syftpkg.JavaPkg): "maven",
	string(syftpkg.DotnetPkg): "nuget", string(syftpkg.RustPkg): "cargo", string(syftpkg.PhpComposerPkg): "composer",
}

// kindOf gives the kind of keys of an ecosystem.
func kindOf(ecosystem string) string {
	name := strings.ToLower(ecosystem)
	if kind, known := kinds[name]; known {
		return kind
	}
	return name
}

func keyOfCPE(vendor, product string) string { return protocol.Key(kindCPE, vendor+":"+product) }

// withoutCPE are the types whose matchers never ask by vendor and product, as they are set up here.
var withoutCPE = []syftpkg.Type{
	syftpkg.DebPkg, syftpkg.RpmPkg, syftpkg.NpmPkg, syftpkg.GemPkg, syftpkg.PythonPkg, syftpkg.JavaPkg, syftpkg.DotnetPkg, syftpkg.RustPkg,
	syftpkg.HexPkg, syftpkg.PortagePkg, syftpkg.AlpmPkg,
}

// namer is what the provider knows of names in its database.
type namer interface {
	PackageSearchNames(p pkg.Package) []string
}

// keys gives the keys under which the matchers might ask for packages, in order of the packages.
func (o *opened) keys(packages []pkg.Package) ([]protocol.PackageKeys, error) {
	all := report.Keys{}
	replaced := replacements()
	families := map[*distro.Distro][]string{}
	names, _ := o.provider.(namer)
	for _, p := range packages {
		if _, known := families[p.Distro]; !known {
			found, err := o.families(p.Distro)
			if err != nil {
				return nil, err
			}
			families[p.Distro] = found
		}
		asked := ecosystems(p, replaced)
		if slices.Contains(systemTypes, p.Type) {
			asked = append(asked, families[p.Distro]...)
		}
		all.Add(p.PURL)
		for _, one := range append(pkg.UpstreamPackages(p), p) {
			searched := []string{one.Name}
			if names != nil {
				searched = append(searched, names.PackageSearchNames(one)...)
			}
			for _, name := range searched {
				for _, kind := range asked {
					all.Add(p.PURL, protocol.Key(kind, name))
				}
			}
			if !slices.Contains(withoutCPE, p.Type) {
				for _, c := range one.CPEs {
					all.Add(p.PURL, keyOfAttributes(c.Attributes))
				}
			}
		}
	}
	return all.List(), nil
}

func keyOfAttributes(a cpe.Attributes) string {
	if a.Vendor == cpe.Any {
		return keyOfCPE(anyVendor, a.Product)
	}
	return keyOfCPE(a.Vendor, a.Product)
}

// replacements are the ecosystems that the database takes for others.
func replacements() map[string][]string {
	list := map[string][]string{}
	for _, r := range v6.KnownPackageSpecifierOverrides() {
		if r.ReplacementEcosystem != nil {
			name := strings.ToLower(r.Ecosystem)
			list[name] = append(list[name], *r.ReplacementEcosystem)
		}
	}
	return list
}

// ecosystems are the kinds of a package beside those of its distribution.
func ecosystems(p pkg.Package, replaced map[string][]string) []string {
	var list []string
	for _, name := range []string{string(p.Type), string(p.Language)} {
		if name == "" {
			continue
		}
		for _, one := range append(slices.Clone(replaced[strings.ToLower(name)]), name) {
			list = append(list, kindOf(one))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// families are the distributions whose advisories the database has for a distribution, and its own name: what a later database has for
// others makes the two databases incomparable.
func (o *opened) families(d *distro.Distro) ([]string, error) {
	if d == nil {
		return nil, nil
	}
	list := []string{strings.ToLower(d.Name()), strings.ToLower(d.ID())}
	found, err := o.reader.GetOperatingSystems(v6.OSSpecifier{
		Name: d.Name(), MajorVersion: d.MajorVersion(), MinorVersion: d.MinorVersion(), RemainingVersion: d.RemainingVersion(), LabelVersion: d.LabelVersion(),
	})
	if err != nil && !errors.Is(err, v6.ErrMissingOSIdentification) && !errors.Is(err, v6.ErrOSNotPresent) {
		return nil, fmt.Errorf("look for distribution: %w", err)
	}
	for _, system := range found {
		list = append(list, strings.ToLower(system.Name))
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(name string) bool { return name == "" }), nil
}
