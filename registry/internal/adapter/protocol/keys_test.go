// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

func TestChangedKeysAreThoseOfOtherValues(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		from, to, want := map[string]string{}, map[string]string{}, []uint64{}
		for i := range 50 {
			key := protocol.Key("Debian", "package-"+strconv.Itoa(i))
			switch random.IntN(5) {
			case 0:
				from[key] = "a"
			case 1:
				to[key] = "a"
			case 2:
				from[key], to[key] = "a", "b"
			default:
				from[key], to[key] = "a", "a"
				continue
			}
			want = append(want, protocol.KeyHash(key))
		}
		slices.Sort(want)
		got := protocol.NewIndex(from).Changed(protocol.NewIndex(to))
		if diff := cmp.Diff(want, append([]uint64{}, got...)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestIndexAndHashesAreReadAsTheyWereWritten(t *testing.T) {
	index := protocol.NewIndex(map[string]string{"debian|zlib": "1", "npm|lodash": "2", "go|stdlib": "3"})
	var file bytes.Buffer
	if err := index.Write(&file); err != nil || file.Len() != 48 {
		t.Fatalf("want 16 bytes a key, got %d, error %v", file.Len(), err)
	}
	whole := bytes.Clone(file.Bytes())
	read, err := protocol.ReadIndex(&file)
	if diff := cmp.Diff(index, read); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := protocol.ReadIndex(bytes.NewReader(whole[:40])); err == nil {
		t.Error("a file that was cut must not be read")
	}
	if _, err := protocol.ReadIndex(bytes.NewReader(append(whole[16:32], whole[:16]...))); err == nil {
		t.Error("keys out of order must not be read")
	}
	hashes := []uint64{3, 1 << 63}
	if err := protocol.WriteHashes(&file, hashes); err != nil {
		t.Fatal(err)
	}
	if got, err := protocol.ReadHashes(bytes.NewReader(file.Bytes())); err != nil || !slices.Equal(got, hashes) {
		t.Errorf("want %v, got %v, error %v", hashes, got, err)
	}
	if _, err := protocol.ReadHashes(bytes.NewReader(file.Bytes()[:12])); err == nil {
		t.Error("a file that was cut must not be read")
	}
}

func TestKeysAreInLowerCase(t *testing.T) {
	if got := protocol.Key("Debian", "ZLib"); got != "debian|zlib" {
		t.Error(got)
	}
	// echo -n 'vuln|cve-2023-45853' | sha256sum | cut -c1-16
	if got := strconv.FormatUint(protocol.KeyHash("vuln|cve-2023-45853"), 16); got != "b70ecf7623bfab88" {
		t.Error(got)
	}
}

func TestFindingsAreOrdered(t *testing.T) {
	of := func(severity string, score float64, id, name, target string) protocol.Finding {
		return protocol.Finding{Severity: severity, Score: score, VulnerabilityID: id, Package: protocol.FindingPackage{Name: name}, Target: target}
	}
	want := []protocol.Finding{
		of(protocol.Critical, 9, "B", "x", "os"), of(protocol.Critical, 9.8, "A", "x", "os"), of(protocol.High, 8, "A", "a", "os"),
		of(protocol.High, 8, "A", "b", "a"), of(protocol.High, 8, "A", "b", "b"), of(protocol.High, 8, "B", "a", "os"), of(protocol.Unknown, 10, "A", "x", "os"),
	}
	want[0], want[1] = want[1], want[0]
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, protocol.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
