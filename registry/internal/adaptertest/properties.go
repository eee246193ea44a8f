// SPDX-License-Identifier: Apache-2.0

package adaptertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/conform"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// Conforms holds the test's own program to the protocol: with the argument "adapter" it must be the adapter. A check that is skipped must
// be one that the adapter does not concern for a reason that is named here.
func Conforms(t *testing.T, a Adapter, reasons ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "database")
	if err := a.Database(file, Advisories(t)); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	passed, err := conform.Run(t.Context(), conform.Options{Path: program, Args: []string{"adapter"}, Database: file, Out: &out, Patience: 10 * time.Minute})
	if err != nil || !passed {
		t.Errorf("error %v:\n%s", err, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if _, reason, skipped := strings.Cut(strings.TrimSpace(line), "# SKIP "); skipped && !slices.Contains(reasons, reason) {
			t.Errorf("%s", line)
		}
	}
}

// some makes random advisories of three ecosystems over few names.
func some(random *rand.Rand, names []string) mini.Advisory {
	kinds := []mini.Advisory{{Ecosystem: "npm"}, {Ecosystem: "debian", Release: "12"}, {Ecosystem: "alpine", Release: "3.18"}}
	a := kinds[random.IntN(len(kinds))]
	a.ID, a.Package = fmt.Sprintf("CVE-2099-%d", random.IntN(20)), names[random.IntN(len(names))]
	a.Severity = []string{protocol.Low, protocol.High, protocol.Critical}[random.IntN(3)]
	a.Ranges = []mini.Range{{Fixed: fmt.Sprintf("%d.0.0", random.IntN(4))}}
	return a
}

// someImage makes an image of one of two distributions and of modules, with random packages of the names.
func someImage(random *rand.Rand, names []string, alpine bool) imagetest.Spec {
	version := func() string { return fmt.Sprintf("%d.0.0", random.IntN(4)) }
	var deb [][3]string
	var apk strings.Builder
	var node [][2]string
	for _, name := range names[:1+random.IntN(len(names))] {
		source := names[random.IntN(len(names))]
		deb = append(deb, [3]string{name, version(), source})
		fmt.Fprintf(&apk, "P:%s\nV:%s\nA:x86_64\no:%s\n\n", name, version(), source)
		node = append(node, [2]string{name, version()})
	}
	system := []imagetest.File{
		{Name: "etc/os-release", Body: "ID=debian\nVERSION_ID=\"12\"\n"},
		{Name: "etc/debian_version", Body: "12.1\n"},
		{Name: "var/lib/dpkg/status", Body: imagetest.DpkgStatus(deb...)},
	}
	if alpine {
		system = []imagetest.File{{Name: "etc/alpine-release", Body: "3.18.2\n"}, {Name: "lib/apk/db/installed", Body: apk.String()}}
	}
	return imagetest.Spec{Layers: []imagetest.Layer{{Files: system}, Modules(node...)}}
}

// someChange makes advisories, and a copy with up to two others.
func someChange(random *rand.Rand, names []string) (one, two *mini.Advisories) {
	one = &mini.Advisories{BuiltAt: imagetest.Created}
	for range 20 {
		one.Advisories = append(one.Advisories, some(random, names))
	}
	two = &mini.Advisories{BuiltAt: one.BuiltAt, Advisories: slices.Clone(one.Advisories)}
	for range random.IntN(3) {
		two.Advisories[random.IntN(len(two.Advisories))] = some(random, names)
	}
	return one, two
}

// namesOf are the names of a finding: its id and its aliases.
func namesOf(f *protocol.Finding) []string { return append([]string{f.VulnerabilityID}, f.Aliases...) }

// ChangedEqualsFull holds findings of random advisories to what db-diff tells: where they differ, a key of the package or a name of a
// finding has changed.
func ChangedEqualsFull(t *testing.T, a Adapter) {
	s := Open(t, a)
	random := rand.New(rand.NewPCG(8, 3)) //nolint:gosec // the same numbers each time
	names := []string{"a", "b", "c", "d", "e", "f"}
	var sboms []string
	for i := range 12 {
		result, err := s.SBOM(someImage(random, names, i%2 == 0))
		if err != nil {
			t.Fatal(err)
		}
		sboms = append(sboms, s.Path(result.Files[protocol.SPDX]))
	}
	changes, untouched := 0, 0
	for round := range 200 {
		diff, touched := s.change(sboms[round%len(sboms)], random, names)
		if diff != "" && !touched {
			t.Fatalf("round %d: findings changed and nothing was touched: %s", round, diff)
		}
		if diff != "" {
			changes++
		}
		if !touched {
			untouched++
		}
	}
	if changes == 0 || untouched == 0 {
		t.Errorf("of 200 rounds %d changed findings, and %d touched nothing: the rounds show nothing", changes, untouched)
	}
}

// change matches an SBOM before and after a random change of the advisories. Diff is how the findings differ, touched whether db-diff tells of
// the packages or the findings.
func (s *Session) change(sbom string, random *rand.Rand, names []string) (diff string, touched bool) {
	t := s.t
	t.Helper()
	one, two := someChange(random, names)
	from, to := s.Install(one), s.Install(two)
	result, hashes := s.Compare(from.Dir, to.Dir)
	before, keys, err := s.Match(sbom, protocol.SPDX, from.Dir, "before")
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := s.Match(sbom, protocol.SPDX, to.Dir, "after")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{from.Dir, to.Dir} {
		if err := s.Ask(protocol.DatabaseDrop, protocol.DatabaseParams{Dir: dir}, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	touched = !result.Comparable
	told := func(key string) bool { return slices.Contains(hashes, protocol.KeyHash(key)) }
	for _, k := range keys {
		touched = touched || slices.ContainsFunc(k.Keys, told)
	}
	for i := range before {
		touched = touched || slices.ContainsFunc(namesOf(&before[i]), func(id string) bool { return told(protocol.Key("vuln", id)) })
	}
	return cmp.Diff(before, after), touched
}

// DocumentsAreCanonical holds an adapter to equal bytes for equal images, in order, with the image's date and namespace.
func DocumentsAreCanonical(t *testing.T, a Adapter, version string) {
	var texts []string
	for range 2 {
		s := Open(t, a)
		result, err := s.SBOM(Known())
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{protocol.SPDX, protocol.CycloneDX} {
			content, err := os.ReadFile(s.Path(result.Files[format]))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(content))
		}
	}
	if texts[0] != texts[2] || texts[1] != texts[3] {
		t.Error("two processes make different documents of one image")
	}
	var document struct {
		Namespace string `json:"documentNamespace"`
		Creation  struct {
			Created string `json:"created"`
		} `json:"creationInfo"`
		Packages []struct {
			ID string `json:"SPDXID"`
		} `json:"packages"`
	}
	if err := json.Unmarshal([]byte(texts[0]), &document); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range document.Packages {
		ids = append(ids, p.ID)
	}
	if !slices.IsSorted(ids) || document.Creation.Created != "2025-09-01T00:00:00Z" ||
		!strings.HasPrefix(document.Namespace, "https://scanyard.io/spdx/sha256:") || !strings.HasSuffix(document.Namespace, "/"+a.Name+"-"+version) {
		t.Errorf("got %+v", document)
	}
}

// ManyMatchesAtOnce holds matches side by side, of two databases, to what each gives alone.
func ManyMatchesAtOnce(t *testing.T, a Adapter) {
	s := Open(t, a)
	made, err := s.SBOM(Known())
	if err != nil {
		t.Fatal(err)
	}
	all := Advisories(t)
	databases := []string{s.Install(all).Dir, s.Install(&mini.Advisories{BuiltAt: all.BuiltAt, Advisories: all.Advisories[:1]}).Dir}
	want := make([][]protocol.Finding, len(databases))
	for i, dir := range databases {
		if want[i], _, err = s.Match(s.Path(made.Files[protocol.SPDX]), protocol.SPDX, dir, fmt.Sprintf("one%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			// Most are of one database, as in a worker; some are of another one.
			i := 0
			if n%8 == 0 {
				i = 1
			}
			got, _, err := s.Match(s.Path(made.Files[protocol.SPDX]), protocol.SPDX, databases[i], fmt.Sprintf("many%d", n))
			if err != nil || !cmp.Equal(got, want[i]) {
				t.Errorf("match %d: %v, %s", n, err, cmp.Diff(want[i], got))
			}
		})
	}
	group.Wait()
}
