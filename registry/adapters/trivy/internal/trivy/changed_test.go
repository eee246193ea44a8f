// SPDX-License-Identifier: Apache-2.0

package trivy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// some makes random advisories of three ecosystems over few names.
func some(random *rand.Rand, names []string) mini.Advisory {
	kinds := []mini.Advisory{{Ecosystem: "npm"}, {Ecosystem: "debian", Release: "12"}, {Ecosystem: "alpine", Release: "3.18"}}
	a := kinds[random.IntN(len(kinds))]
	a.ID, a.Package = fmt.Sprintf("CVE-2099-%d", random.IntN(20)), names[random.IntN(len(names))]
	a.Severity = []string{protocol.Low, protocol.High, protocol.Critical}[random.IntN(3)]
	a.Ranges = []mini.Range{{Fixed: fmt.Sprintf("%d.0.0", random.IntN(4))}}
	return a
}

func TestChangedEqualsFull(t *testing.T) {
	s := open(t)
	random := rand.New(rand.NewPCG(8, 3))
	names := []string{"a", "b", "c", "d", "e", "f"}
	version := func() string { return fmt.Sprintf("%d.0.0", random.IntN(4)) }
	var sboms []string
	for i := range 12 {
		var deb [][3]string
		var apk strings.Builder
		var node [][2]string
		for _, name := range names[:1+random.IntN(len(names))] {
			source := names[random.IntN(len(names))]
			deb = append(deb, [3]string{name, version(), source})
			fmt.Fprintf(&apk, "P:%s\nV:%s\nA:x86_64\no:%s\n\n", name, version(), source)
			node = append(node, [2]string{name, version()})
		}
		system := imagetest.Layer{Files: []imagetest.File{
			{Name: "etc/os-release", Body: "ID=debian\nVERSION_ID=\"12\"\n"},
			{Name: "etc/debian_version", Body: "12.1\n"},
			{Name: "var/lib/dpkg/status", Body: imagetest.DpkgStatus(deb...)},
		}}
		if i%2 == 0 {
			system = imagetest.Layer{Files: []imagetest.File{{Name: "etc/alpine-release", Body: "3.18.2\n"}, {Name: "lib/apk/db/installed", Body: apk.String()}}}
		}
		result, err := s.sbom(imagetest.Spec{Layers: []imagetest.Layer{system, modules(node...)}})
		if err != nil {
			t.Fatal(err)
		}
		sboms = append(sboms, s.path(result.Files[protocol.SPDX]))
	}
	changes, untouched := 0, 0
	for round := range 200 {
		one := &mini.Advisories{BuiltAt: imagetest.Created}
		for range 20 {
			one.Advisories = append(one.Advisories, some(random, names))
		}
		two := &mini.Advisories{BuiltAt: one.BuiltAt, Advisories: slices.Clone(one.Advisories)}
		for range random.IntN(3) {
			two.Advisories[random.IntN(len(two.Advisories))] = some(random, names)
		}
		from, to := s.install(one), s.install(two)
		result, hashes := s.compare(from.Dir, to.Dir)
		sbom := sboms[round%len(sboms)]
		before, keys, err := s.match(sbom, protocol.SPDX, from.Dir, "before")
		if err != nil {
			t.Fatal(err)
		}
		after, _, err := s.match(sbom, protocol.SPDX, to.Dir, "after")
		if err != nil {
			t.Fatal(err)
		}
		touched := !result.Comparable
		for _, k := range keys {
			touched = touched || slices.ContainsFunc(k.Keys, func(key string) bool { return slices.Contains(hashes, protocol.KeyHash(key)) })
		}
		for _, f := range before {
			touched = touched || slices.Contains(hashes, protocol.KeyHash(protocol.Key("vuln", f.VulnerabilityID)))
		}
		diff := cmp.Diff(before, after)
		if diff != "" && !touched {
			t.Fatalf("round %d: findings changed and nothing was touched: %s", round, diff)
		}
		if diff != "" {
			changes++
		}
		if !touched {
			untouched++
		}
		for _, dir := range []string{from.Dir, to.Dir} {
			if err := s.ask(protocol.DatabaseDrop, protocol.DatabaseParams{Dir: dir}, &struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changes == 0 || untouched == 0 {
		t.Errorf("of 200 rounds %d changed findings, and %d touched nothing: the rounds show nothing", changes, untouched)
	}
}
