// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// databaseOf opens advisories in memory.
func databaseOf(advisories []Advisory) *opened {
	o := &opened{byKey: map[string][]Advisory{}}
	o.add(advisories)
	return o
}

// TestChangedFindingsHaveAChangedKey is TestChangedEqualsFull without files: what a database changes of the findings of an SBOM is told by
// a key of its packages, or by one of the vulnerabilities that were found before.
func TestChangedFindingsHaveAChangedKey(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 8))
	names := []string{"a", "b", "c", "d", "e", "f"}
	name := func() string { return names[random.IntN(len(names))] }
	version := func() string { return fmt.Sprintf("%d.0.0", random.IntN(4)) }
	some := func() Advisory {
		a := []Advisory{{Ecosystem: "npm"}, {Ecosystem: "debian"}, {Ecosystem: "debian", Release: "12"}, {Ecosystem: "go"}}[random.IntN(4)]
		a.ID, a.Package, a.Severity = fmt.Sprintf("CVE-2099-%d", random.IntN(20)), name(), []string{protocol.Low, protocol.High}[random.IntN(2)]
		if random.IntN(4) > 0 {
			a.Ranges = []Range{{Introduced: version(), Fixed: version()}}
		}
		if random.IntN(3) == 0 {
			a.Aliases = []string{fmt.Sprintf("GHSA-%d", random.IntN(20))}
		}
		return a
	}
	system := protocol.OS{Family: "debian", Version: "12"}
	look := func(o *opened, packages []read) (findings []protocol.Finding) {
		for _, p := range packages {
			findings = append(findings, o.findings(p, system)...)
		}
		slices.SortFunc(findings, protocol.Compare)
		return findings
	}
	changes, untouched := 0, 0
	for round := range 10_000 {
		var packages []read
		for range 1 + random.IntN(4) {
			p := pkg{Type: []string{typeNpm, typeDeb, typeGo}[random.IntN(3)], Name: name(), Version: version()}
			if p.Type == typeDeb {
				p.Source, p.SourceVersion = name(), version()
			}
			packages = append(packages, read{item: item{pkg: p}, PURL: fmt.Sprintf("pkg:%s/%s@%s?source=%s", p.Type, p.Name, p.Version, p.Source)})
		}
		var one []Advisory
		for range 12 {
			one = append(one, some())
		}
		two := slices.Clone(one)
		for range random.IntN(3) {
			two[random.IntN(len(two))] = some()
		}
		from, fromErr := databaseOf(one).index()
		to, toErr := databaseOf(two).index()
		if fromErr != nil || toErr != nil {
			t.Fatal(fromErr, toErr)
		}
		hashes := from.Changed(to)
		before, after := look(databaseOf(one), packages), look(databaseOf(two), packages)
		touched := slices.ContainsFunc(keysOf(packages, system), func(k protocol.PackageKeys) bool {
			return slices.ContainsFunc(k.Keys, func(key string) bool { return slices.Contains(hashes, protocol.KeyHash(key)) })
		}) || slices.ContainsFunc(before, func(f protocol.Finding) bool {
			return slices.Contains(hashes, protocol.KeyHash(protocol.Key("vuln", f.VulnerabilityID)))
		})
		switch diff := cmp.Diff(before, after); {
		case diff != "" && !touched:
			t.Fatalf("round %d: findings changed and nothing was touched: %s", round, diff)
		case diff != "":
			changes++
		case !touched:
			untouched++
		}
	}
	if changes == 0 || untouched == 0 {
		t.Errorf("%d rounds changed findings, and %d touched nothing: the rounds show nothing", changes, untouched)
	}
}
