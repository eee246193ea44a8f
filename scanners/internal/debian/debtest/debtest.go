// SPDX-License-Identifier: Apache-2.0

package debtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Date is when archives are signed.
var Date = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// File is an entry of a package. Without a Type it is a file, or a folder if the name ends in a slash, or a link if
// it has a target.
type File struct {
	Name, Content, Target string
	Mode                  int64
	Type                  byte
}

// Deb makes a package; compression is xz, zst, gz or empty for none.
func Deb(t testing.TB, compression string, files ...File) []byte {
	t.Helper()
	var data bytes.Buffer
	w := compress(t, compression, &data)
	tw := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Linkname: f.Target, Mode: f.Mode, Typeflag: f.Type, Size: int64(len(f.Content)), ModTime: Date, Uname: "builder"}
		switch {
		case f.Type != 0:
		case f.Target != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		must(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(f.Content))
		must(t, err)
	}
	must(t, tw.Close())
	must(t, w.Close())
	name := "data.tar"
	if compression != "" {
		name += "." + compression
	}
	return Ar(Member{"debian-binary", []byte("2.0\n")}, Member{"control.tar", nil}, Member{name, data.Bytes()})
}

// Member is a file of an ar archive.
type Member struct {
	Name    string
	Content []byte
}

// Ar makes an ar archive.
func Ar(members ...Member) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.Name, 0, 0, 0, "100644", len(m.Content))
		b.Write(m.Content)
		if len(m.Content)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }

func compress(t testing.TB, how string, w io.Writer) io.WriteCloser {
	t.Helper()
	switch how {
	case "xz":
		x, err := xz.NewWriter(w)
		must(t, err)
		return x
	case "zst":
		z, err := zstd.NewWriter(w)
		must(t, err)
		return z
	case "gz":
		return gzip.NewWriter(w)
	default:
		return nopCloser{w}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Archive is a Debian archive in a folder.
type Archive struct {
	t        testing.TB
	dir      string
	key      *openpgp.Entity
	packages map[string]string // Packages by architecture
	// Suite and ValidUntil go into the signed list.
	Suite      string
	ValidUntil time.Time
}

// New makes an empty archive with a key of its own.
func New(t testing.TB) *Archive {
	t.Helper()
	key, err := openpgp.NewEntity("Test Archive", "", "archive@example.com", &packet.Config{Time: func() time.Time { return Date.AddDate(-1, 0, 0) }})
	must(t, err)
	return &Archive{t: t, dir: t.TempDir(), key: key, packages: map[string]string{}, Suite: "test"}
}

// Add puts a package into the archive. Control is its paragraph without what says where it lies; Architecture "all"
// puts it into all lists.
func (a *Archive) Add(deb []byte, control map[string]string) {
	a.t.Helper()
	arch := control["Architecture"]
	name := fmt.Sprintf("pool/%s_%s_%s.deb", control["Package"], control["Version"], arch)
	a.Write(name, deb)
	sum := sha256.Sum256(deb)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(control)) {
		fmt.Fprintf(&b, "%s: %s\n", k, control[k])
	}
	fmt.Fprintf(&b, "Filename: %s\nSize: %d\nSHA256: %s\nDescription: test\n continued\n\n", name, len(deb), hex.EncodeToString(sum[:]))
	for _, to := range []string{"amd64", "arm64"} {
		if arch == to || arch == "all" {
			a.packages[to] += b.String()
		}
	}
}

// Write puts any file into the archive, as a broken mirror would.
func (a *Archive) Write(name string, content []byte) {
	a.t.Helper()
	file := filepath.Join(a.dir, filepath.FromSlash(name))
	must(a.t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(a.t, os.WriteFile(file, content, 0o600))
}

// Remove takes a file out of the archive without a word in its lists.
func (a *Archive) Remove(name string) {
	a.t.Helper()
	must(a.t, os.Remove(filepath.Join(a.dir, filepath.FromSlash(name))))
}

// Sign writes the lists and signs them. compression is the format of the Packages files.
func (a *Archive) Sign(compression string) {
	a.t.Helper()
	var hashes strings.Builder
	for _, arch := range []string{"amd64", "arm64"} {
		var b bytes.Buffer
		w := compress(a.t, compression, &b)
		_, err := io.WriteString(w, a.packages[arch])
		must(a.t, err)
		must(a.t, w.Close())
		name := "main/binary-" + arch + "/Packages"
		if compression != "" {
			name += "." + compression
		}
		a.Write("dists/"+a.Suite+"/"+name, b.Bytes())
		sum := sha256.Sum256(b.Bytes())
		fmt.Fprintf(&hashes, " %s %d %s\n", hex.EncodeToString(sum[:]), b.Len(), name)
	}
	text := fmt.Sprintf("Origin: Test\nSuite: %s\nCodename: %s\nDate: %s\n", a.Suite, a.Suite, Date.Format(time.RFC1123))
	if !a.ValidUntil.IsZero() {
		text += "Valid-Until: " + a.ValidUntil.UTC().Format(time.RFC1123) + "\n"
	}
	a.Write("dists/"+a.Suite+"/InRelease", a.clearsign(text+"SHA256:\n"+hashes.String()))
}

func (a *Archive) clearsign(text string) []byte {
	a.t.Helper()
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, a.key.PrivateKey, &packet.Config{Time: func() time.Time { return Date }})
	must(a.t, err)
	_, err = io.WriteString(w, text)
	must(a.t, err)
	must(a.t, w.Close())
	return b.Bytes()
}

// Keys is the public key, armored.
func (a *Archive) Keys() []byte {
	a.t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	must(a.t, err)
	must(a.t, a.key.Serialize(w))
	must(a.t, w.Close())
	return b.Bytes()
}

// Serve serves the archive until the test ends, and returns its address.
func (a *Archive) Serve() string {
	s := httptest.NewServer(http.FileServer(http.Dir(a.dir)))
	a.t.Cleanup(s.Close)
	return s.URL
}
