// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var date = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func newTree(t *testing.T, below *Tree, limits Limits) *Tree {
	t.Helper()
	tree, err := NewTree(t.TempDir(), below, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// listed is the tree as its archive shows it.
func listed(t *testing.T, tree *Tree) []string {
	t.Helper()
	var b bytes.Buffer
	if err := tree.WriteTar(&b, date); err != nil {
		t.Fatal(err)
	}
	var all []string
	tr := tar.NewReader(&b)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(date) || h.Uname != "" {
			t.Errorf("%s: time %s, user %q", h.Name, h.ModTime, h.Uname)
		}
		line := fmt.Sprintf("%s %04o %d:%d", h.Name, h.Mode, h.Uid, h.Gid)
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		if len(content) > 0 {
			line += " " + string(content)
		}
		all = append(all, line)
	}
}

func TestMergedFoldersAndLinks(t *testing.T) {
	tree := newTree(t, nil, DefaultLimits)
	for _, step := range []error{
		tree.Dir("usr/lib", 0o755, 0, 0),
		tree.Link("lib", "usr/lib"),
		tree.Link("lib", "usr/lib"),
		tree.Add(&tar.Header{Name: "./lib/", Typeflag: tar.TypeDir, Mode: 0o700}, nil),
		tree.Add(&tar.Header{Name: "./lib/x/libc.so", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 1, Gid: 2, Uname: "me"}, strings.NewReader("c")),
		tree.Add(&tar.Header{Name: "/usr/lib/x/libd.so", Typeflag: tar.TypeReg, Mode: 0o644}, strings.NewReader("d")),
		tree.Add(&tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "./lib/x/libc.so"}, nil),
		tree.Add(&tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}, nil),
		tree.Add(&tar.Header{Name: "abs", Typeflag: tar.TypeSymlink, Linkname: "/lib/x"}, nil),
		tree.File("abs/through", 0o600, 0, 0, strings.NewReader("t")),
		tree.Dir("tmp", 0o1777, 0, 0),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	want := []string{
		"abs 0777 0:0 -> /lib/x",
		"lib 0777 0:0 -> usr/lib",
		"tmp/ 1777 0:0",
		"usr/ 0755 0:0",
		"usr/lib/ 0755 0:0",
		"usr/lib/x/ 0755 0:0",
		"usr/lib/x/libc.so 0755 1:2 c",
		"usr/lib/x/libd.so 0644 0:0 d",
		"usr/lib/x/through 0600 0:0 t",
		"a 0755 1:2 -> usr/lib/x/libc.so",
		"b 0755 1:2 -> usr/lib/x/libc.so",
	}
	if diff := cmp.Diff(want, listed(t, tree)); diff != "" {
		t.Error(diff)
	}
	tree.Remove("/usr/lib/x")
	want = []string{
		"a 0755 1:2 c",
		"abs 0777 0:0 -> /lib/x",
		"lib 0777 0:0 -> usr/lib",
		"tmp/ 1777 0:0",
		"usr/ 0755 0:0",
		"usr/lib/ 0755 0:0",
		"b 0755 1:2 -> a",
	}
	if diff := cmp.Diff(want, listed(t, tree)); diff != "" {
		t.Errorf("after the content's first name is gone: %s", diff)
	}
}

func TestUpperTreeKnowsTheLower(t *testing.T) {
	lower := newTree(t, nil, DefaultLimits)
	if err := errors.Join(lower.Dir("usr/bin", 0o755, 0, 0), lower.Link("bin", "usr/bin"), lower.Text("usr/bin/tool", 0o755, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	upper := newTree(t, lower, DefaultLimits)
	if err := errors.Join(upper.Text("bin/other", 0o755, []byte("y")), upper.Text("bin/tool", 0o755, []byte("z"))); err != nil {
		t.Fatal(err)
	}
	want := []string{"usr/bin/other 0755 0:0 y", "usr/bin/tool 0755 0:0 z"}
	if diff := cmp.Diff(want, listed(t, upper)); diff != "" {
		t.Error(diff)
	}
	names, err := upper.Within("bin")
	if diff := cmp.Diff([]string{"usr/bin/other", "usr/bin/tool"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, want := range map[string]string{"bin/tool": "z", "usr/bin/other": "y"} {
		r, err := upper.Open(name)
		if err != nil || r == nil {
			t.Fatal(name, err)
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	over := newTree(t, nil, DefaultLimits)
	over.Overlay()
	if err := over.Text("bin/w.sh", 0o755, []byte("s")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bin/w.sh 0755 0:0 s"}, listed(t, over)); diff != "" {
		t.Errorf("over layers that are not known: %s", diff)
	}
}

func TestHostileEntries(t *testing.T) {
	small := Limits{Bytes: 10, Entries: 4}
	tests := map[string]struct {
		entries []tar.Header
		content string
		limits  Limits
		err     string
	}{
		"Traversal":         {entries: []tar.Header{{Name: "../../etc/passwd", Typeflag: tar.TypeReg}}, err: "leads out of the root"},
		"TraversalWithin":   {entries: []tar.Header{{Name: "usr/../../x", Typeflag: tar.TypeReg}}, err: "leads out of the root"},
		"TraversalFolder":   {entries: []tar.Header{{Name: "a/../..", Typeflag: tar.TypeDir}}, err: "leads out of the root"},
		"LinkOut":           {entries: []tar.Header{{Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: "../../x"}}, err: "leads out of the root"},
		"LinkOutAndBack":    {entries: []tar.Header{{Name: "b", Typeflag: tar.TypeSymlink, Linkname: "../etc"}}, err: "leads out of the root"},
		"LinkCircle":        {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}, {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"}, {Name: "a/x", Typeflag: tar.TypeReg}}, err: "too many links"},
		"HardLinkOut":       {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "../etc/shadow"}}, err: "leads out of the root"},
		"HardLinkToNothing": {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "etc/shadow"}}, err: "which is not a file of this layer"},
		"ThroughAFile":      {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "a/b", Typeflag: tar.TypeReg}}, err: "on its way is a file"},
		"DeepThroughAFile":  {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "a/b/c", Typeflag: tar.TypeReg}}, err: "on its way is a file"},
		"Twice":             {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "./a", Typeflag: tar.TypeReg}}, err: "is there already"},
		"FolderOverFile":    {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "a", Typeflag: tar.TypeDir}}, err: "is a file already"},
		"LinkOverFile":      {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}}, err: "is there already"},
		"Device":            {entries: []tar.Header{{Name: "dev/sda", Typeflag: tar.TypeBlock}}, err: "are refused"},
		"Pipe":              {entries: []tar.Header{{Name: "p", Typeflag: tar.TypeFifo}}, err: "are refused"},
		"ZeroByte":          {entries: []tar.Header{{Name: "a\x00b", Typeflag: tar.TypeReg}}, err: "zero byte"},
		"LongName":          {entries: []tar.Header{{Name: strings.Repeat("a", 5000), Typeflag: tar.TypeReg}}, err: "too large"},
		"RootAsFile":        {entries: []tar.Header{{Name: "./", Typeflag: tar.TypeReg}}, err: "the root is not a file"},
		"Huge":              {entries: []tar.Header{{Name: "a", Typeflag: tar.TypeReg}}, content: "12345678901", limits: small, err: "contents of more than 10 bytes"},
		"Many":              {entries: []tar.Header{{Name: "a/b/c/d", Typeflag: tar.TypeReg}, {Name: "e", Typeflag: tar.TypeReg}}, limits: small, err: "more than 4 names"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.limits == (Limits{}) {
				tc.limits = DefaultLimits
			}
			tree := newTree(t, nil, tc.limits)
			var err error
			for i := range tc.entries {
				if err = tree.Add(&tc.entries[i], strings.NewReader(tc.content)); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	digest := func(seed uint64) string {
		tree := newTree(t, nil, DefaultLimits)
		names := make([]string, 200)
		for i := range names {
			names[i] = fmt.Sprintf("d%d/f%d", i%7, i)
		}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, n := range names {
			if err := tree.Text(n, 0o644, []byte(n)); err != nil {
				t.Fatal(err)
			}
		}
		l, err := tree.Layer(t.TempDir(), date)
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return h.String()
	}
	if a, b := digest(1), digest(2); a != b {
		t.Errorf("%s and %s", a, b)
	}
}
