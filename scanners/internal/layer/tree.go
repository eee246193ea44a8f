// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Limits bound what a tree takes. Contents come from archives that may be hostile.
type Limits struct {
	// Bytes is how much content all files have together.
	Bytes int64
	// Entries is how many names there are.
	Entries int
}

// DefaultLimits are far above what a scanner with a browser needs.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 200_000}

// ErrTooLarge says that a limit was reached.
var ErrTooLarge = errors.New("too large")

// Tree is a set of files to become a layer. Close it when the layer has been used.
type Tree struct {
	limits  Limits
	below   *Tree
	overlay bool
	entries map[string]*entry
	spool   *os.File
	size    int64
}

type entry struct {
	kind     byte // a tar.Type…
	mode     int64
	uid, gid int
	target   string // of a link
	offset   int64  // in the spool
	size     int64
	implicit bool // a folder that no call named
}

// NewTree makes an empty tree that keeps contents in a file below dir. Names of below, if it is not nil, count
// as there, but are not written again.
func NewTree(dir string, below *Tree, limits Limits) (*Tree, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, fmt.Errorf("make a spool file: %w", err)
	}
	return &Tree{limits: limits, below: below, entries: map[string]*entry{}, spool: f}, nil
}

// Overlay says that layers of unknown content lie below: folders that no call named are then left to whoever
// unpacks the image, since writing one could replace a link of the same name.
func (t *Tree) Overlay() { t.overlay = true }

// Close removes the contents.
func (t *Tree) Close() error {
	return errors.Join(t.spool.Close(), os.Remove(t.spool.Name()))
}

// Bytes is the size of all contents.
func (t *Tree) Bytes() int64 { return t.size }

// Dir adds a folder. One that is there already keeps its mode, and a link to a folder stays a link.
func (t *Tree) Dir(name string, mode int64, uid, gid int) error {
	p, err := t.place(name)
	if err != nil || p == "" {
		return err
	}
	if old := t.find(p); old != nil {
		switch {
		case old.kind == tar.TypeSymlink:
			return nil
		case old.kind != tar.TypeDir:
			return fmt.Errorf("%s: is a file already", name)
		case !old.implicit:
			return nil
		}
	}
	return t.put(p, &entry{kind: tar.TypeDir, mode: mode, uid: uid, gid: gid})
}

// File adds a file with the content of r.
func (t *Tree) File(name string, mode int64, uid, gid int, r io.Reader) error {
	p, err := t.place(name)
	if err != nil {
		return err
	}
	if p == "" {
		return fmt.Errorf("%q: the root is not a file", name)
	}
	if t.entries[p] != nil {
		return fmt.Errorf("%s: is there already", name)
	}
	left := t.limits.Bytes - t.size
	n, err := io.Copy(t.spool, io.LimitReader(r, left+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n > left {
		return fmt.Errorf("%s: %w: contents of more than %d bytes", name, ErrTooLarge, t.limits.Bytes)
	}
	e := &entry{kind: tar.TypeReg, mode: mode, uid: uid, gid: gid, offset: t.size, size: n}
	t.size += n
	return t.put(p, e)
}

// Link adds a symbolic link. The same link a second time is not an error.
func (t *Tree) Link(name, target string) error {
	p, err := t.place(name)
	if err != nil {
		return err
	}
	if p == "" || target == "" {
		return fmt.Errorf("%q: a link needs a name and a target", name)
	}
	if err := inside(p, target); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if old := t.entries[p]; old != nil {
		if old.kind == tar.TypeSymlink && old.target == target {
			return nil
		}
		return fmt.Errorf("%s: is there already", name)
	}
	return t.put(p, &entry{kind: tar.TypeSymlink, mode: 0o777, target: target})
}

// Add takes an entry of an archive. Contents are read to the end.
func (t *Tree) Add(h *tar.Header, r io.Reader) error {
	mode := h.Mode & 0o1777
	switch h.Typeflag {
	case tar.TypeDir:
		return t.Dir(h.Name, mode, h.Uid, h.Gid)
	case tar.TypeReg:
		return t.File(h.Name, mode, h.Uid, h.Gid, r)
	case tar.TypeSymlink:
		return t.Link(h.Name, h.Linkname)
	case tar.TypeLink:
		return t.hardLink(h.Name, h.Linkname)
	default:
		return fmt.Errorf("%s: entries of type %q are refused: only files, folders and links belong into an image", h.Name, string(h.Typeflag))
	}
}

// hardLink makes two names for one content.
func (t *Tree) hardLink(name, target string) error {
	from, err := t.place(target)
	if err != nil {
		return err
	}
	p, err := t.place(name)
	if err != nil {
		return err
	}
	old := t.entries[from]
	if old != nil && old.kind == tar.TypeLink {
		from = old.target
		old = t.entries[from]
	}
	if old == nil || old.kind != tar.TypeReg {
		return fmt.Errorf("%s: is a hard link to %s, which is not a file of this layer", name, target)
	}
	if p == "" || t.entries[p] != nil {
		return fmt.Errorf("%s: is there already", name)
	}
	return t.put(p, &entry{kind: tar.TypeLink, mode: old.mode, uid: old.uid, gid: old.gid, target: from})
}

// Remove leaves out a name and everything below it.
func (t *Tree) Remove(name string) {
	p := strings.Trim(path.Clean("/"+name), "/")
	for n, e := range t.entries {
		if n == p || strings.HasPrefix(n, p+"/") {
			if e.kind == tar.TypeReg {
				t.promote(n, p)
			}
			delete(t.entries, n)
		}
	}
}

// promote hands a removed content on to the first hard link that stays.
func (t *Tree) promote(gone, removed string) {
	var heir string
	for n, e := range t.entries {
		if e.kind != tar.TypeLink || e.target != gone || n == removed || strings.HasPrefix(n, removed+"/") {
			continue
		}
		if heir == "" || n < heir {
			heir = n
		}
	}
	if heir == "" {
		return
	}
	content := *t.entries[gone]
	for _, e := range t.entries {
		if e.kind == tar.TypeLink && e.target == gone {
			e.target = heir
		}
	}
	t.entries[heir] = &content
}

// Has reports whether a file or link of that name is in the tree or below it.
func (t *Tree) Has(name string) bool {
	p, err := t.place(name)
	if err != nil {
		return false
	}
	return t.find(p) != nil
}

func (t *Tree) find(p string) *entry {
	for s := t; s != nil; s = s.below {
		if e := s.entries[p]; e != nil {
			return e
		}
	}
	return nil
}

func (t *Tree) put(p string, e *entry) error {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if old := t.find(dir); old != nil {
			break
		}
		t.entries[dir] = &entry{kind: tar.TypeDir, mode: 0o755, implicit: true}
	}
	t.entries[p] = e
	if len(t.entries) > t.limits.Entries {
		return fmt.Errorf("%w: more than %d names", ErrTooLarge, t.limits.Entries)
	}
	return nil
}

// place turns a name into the path it has in the tree: relative, without links among its folders. The last part
// is not followed. The root is "".
func (t *Tree) place(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q: has a zero byte", name)
	}
	if len(name) > 4096 {
		return "", fmt.Errorf("%.40q…: %w: a name of %d bytes", name, ErrTooLarge, len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%q: leads out of the root", name)
		}
	}
	p := strings.Trim(path.Clean("/"+name), "/")
	dir, last := path.Split(p)
	real, err := t.follow(strings.Trim(dir, "/"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if e := t.find(real); e != nil && e.kind != tar.TypeDir {
		return "", fmt.Errorf("%s: /%s on its way is a file", name, real)
	}
	return strings.Trim(real+"/"+last, "/"), nil
}

// follow replaces links in the path of a folder.
func (t *Tree) follow(dir string) (string, error) {
	left := strings.Split(dir, "/")
	done := ""
	for hops := 0; len(left) > 0; {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = strings.Trim(path.Dir("/"+done), "/")
			continue
		}
		next := strings.Trim(done+"/"+part, "/")
		e := t.find(next)
		switch {
		case e == nil || e.kind == tar.TypeDir || len(left) == 0 && e.kind != tar.TypeSymlink:
			done = next
		case e.kind == tar.TypeSymlink:
			if hops++; hops > 40 {
				return "", errors.New("has too many links on its way")
			}
			if strings.HasPrefix(e.target, "/") {
				done = ""
			}
			left = append(strings.Split(e.target, "/"), left...)
		default:
			return "", fmt.Errorf("/%s on its way is a file", next)
		}
	}
	return done, nil
}

// inside refuses a relative target that climbs above the root.
func inside(link, target string) error {
	if strings.ContainsRune(target, 0) || len(target) > 4096 {
		return errors.New("has an impossible target")
	}
	if strings.HasPrefix(target, "/") {
		return nil // in a container, the root is the image's
	}
	depth := strings.Count(link, "/")
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return fmt.Errorf("its target %q leads out of the root", target)
		}
	}
	return nil
}

// Text adds a file of a few lines.
func (t *Tree) Text(name string, mode int64, content []byte) error {
	return t.File(name, mode, 0, 0, bytes.NewReader(content))
}

// Open returns the content of a file of this tree or below it, through links; nil if there is none.
func (t *Tree) Open(name string) (*io.SectionReader, error) {
	p, err := t.Real(name)
	if err != nil {
		return nil, err
	}
	for s := t; s != nil; s = s.below {
		e := s.entries[p]
		if e != nil && e.kind == tar.TypeLink {
			e = s.entries[e.target]
		}
		if e == nil {
			continue
		}
		if e.kind != tar.TypeReg {
			return nil, nil
		}
		return io.NewSectionReader(s.spool, e.offset, e.size), nil
	}
	return nil, nil
}

// Real is the path of a name after all links, the last part included.
func (t *Tree) Real(name string) (string, error) {
	return t.follow(strings.Trim(path.Clean("/"+name), "/"))
}

// Within lists the names of the files and links right in a folder, of this tree and those below it, sorted.
func (t *Tree) Within(dir string) ([]string, error) {
	real, err := t.Real(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for s := t; s != nil; s = s.below {
		for n, e := range s.entries {
			if path.Dir(n) == real && e.kind != tar.TypeDir {
				found[n] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
