// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

// secret is a key for a name.
func secret(name string) []byte {
	digest := sha256.Sum256([]byte(name))
	return digest[:]
}

func sealed(dir string, names ...string) queue.Options {
	o := options(dir, nil)
	for _, name := range names {
		o.Keys = append(o.Keys, secret(name))
	}
	return o
}

// contains tells which files of a directory have a text in them.
func contains(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			names = append(names, entry.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// image tells the content of each file of a directory.
func image(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %x\n", filepath.Base(path), sha256.Sum256(content))
	}
	return all.String()
}

// putLetter puts a record and makes a dead letter of it.
func putLetter(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	put(t, q, "a", id)
	r, err := q.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(q.Last("a")-1, 1, 1<<20)
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Dead: []*queue.DeadLetter{{Record: records[0], Class: "record", Reason: "Malformed", Message: "no " + id}}})
}

func TestSealedRecordsHaveNoPlaintext(t *testing.T) {
	for name, keys := range map[string][]string{"Sealed": {"new"}, "Open": nil} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "q")
			q := open(t, sealed(dir, keys...))
			put(t, q, "a", "swordfish")
			putLetter(t, q, "marlinspike")
			if got := ids(t, q, "a"); strings.Join(got, " ") != "swordfish marlinspike" {
				t.Errorf("got %v", got)
			}
			closeQueue(t, q)
			found := len(contains(t, dir, "swordfish"))+len(contains(t, dir, "marlinspike")) > 0
			if found != (keys == nil) {
				t.Errorf("the records are in clear: %v", found)
			}
			q = open(t, sealed(dir, keys...)) // the log becomes tables
			defer closeQueue(t, q)
			letters, err := q.DeadLetters("hub", "a", false, 10)
			if err != nil || len(letters) != 1 || letters[0].Message != "no marlinspike" || letters[0].Record.ID != "marlinspike" {
				t.Errorf("%+v, %v", letters, err)
			}
			if found := len(contains(t, dir, "swordfish"))+len(contains(t, dir, "marlinspike")) > 0; found != (keys == nil) {
				t.Errorf("the records are in clear after a restart: %v", found)
			}
		})
	}
}

func TestMissingKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	q := open(t, sealed(dir, "first"))
	put(t, q, "a", "1")
	closeQueue(t, q)
	q = open(t, sealed(dir, "second", "first"))
	put(t, q, "a", "2")
	closeQueue(t, q)
	q = open(t, sealed(dir, "third", "second", "first"))
	put(t, q, "a", "3")
	closeQueue(t, q)
	for name, keys := range map[string][]string{"first": {"third", "second"}, "second": {"third", "first"}, "third": {"second", "first", "other"}} {
		o := sealed(dir, keys...)
		o.Quarantine = true
		_, err := queue.Open(o)
		missing, ok := errors.AsType[*queue.KeyError](err)
		if !ok || missing.ID != queue.KeyID(secret(name)) || !strings.Contains(err.Error(), "--encryption-key-file") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	_, err := queue.Open(options(dir, nil))
	if !errors.As(err, new(*queue.KeyError)) {
		t.Errorf("without any key: %v", err)
	}
	q = open(t, sealed(dir, "third", "first", "second"))
	if got := ids(t, q, "a"); strings.Join(got, " ") != "1 2 3" {
		t.Errorf("nothing may be lost by a key that was missing: %v", got)
	}
	closeQueue(t, q)
}

func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	q := open(t, options(dir, nil))
	put(t, q, "a", "1")
	closeQueue(t, q)
	q = open(t, sealed(dir, "old")) // what is in clear already goes on to be read
	putLetter(t, q, "2")
	closeQueue(t, q)
	q = open(t, sealed(dir, "new", "old"))
	put(t, q, "a", "3")
	if got := ids(t, q, "a"); strings.Join(got, " ") != "1 2 3" {
		t.Errorf("got %v", got)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 3, Delivered: 3})
	submit(t, q, &queue.Submission{})
	closeQueue(t, q)
	if _, err := queue.Open(sealed(dir, "new")); !errors.As(err, new(*queue.KeyError)) {
		t.Errorf("a dead letter is sealed by the old key still: %v", err)
	}
	q = open(t, sealed(dir, "new", "old"))
	if gone, err := q.DropDeadLetters(queue.Selection{Sink: "hub", All: true}, false); err != nil || len(gone) != 1 {
		t.Errorf("%v, %v", gone, err)
	}
	put(t, q, "a", "4")
	closeQueue(t, q)
	q = open(t, sealed(dir, "new")) // nothing needs the old key
	if got := ids(t, q, "a"); strings.Join(got, " ") != "4" {
		t.Errorf("got %v", got)
	}
	closeQueue(t, q)
}

func TestKeyOfOtherSize(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "q"), nil)
	o.Keys = [][]byte{[]byte("short")}
	if _, err := queue.Open(o); err == nil || !strings.Contains(err.Error(), "5 bytes, and must have 32") {
		t.Errorf("got %v", err)
	}
}

func TestFaultDamageOfSealed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	const n = 300 // some blocks
	fillQueue(t, sealed(dir, "key"), n)
	closeQueue(t, open(t, sealed(dir, "key"))) // the log becomes a table
	path := newest(t, dir, "*.sst")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 0x01
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	o := sealed(dir, "key")
	o.Quarantine = true
	q := open(t, o)
	defer closeQueue(t, q)
	if !strings.HasPrefix(q.Quarantined, dir+".damaged-") {
		t.Errorf("put aside as %q", q.Quarantined)
	}
	var out bytes.Buffer
	without, err := queue.Salvage(q.Quarantined, nil, &out)
	if err != nil || without.Records != 0 || out.Len() != 0 || !strings.Contains(without.Summary(), queue.KeyID(secret("key"))) {
		t.Errorf("without the key: %s, %v", without.Summary(), err)
	}
	with, err := queue.Salvage(q.Quarantined, [][]byte{secret("key")}, &out)
	if err != nil || with.Records < n*2/3 || with.Records == n || bytes.Count(out.Bytes(), []byte("\n")) != with.Records {
		t.Errorf("with the key: %s, %v", with.Summary(), err)
	}
}

// TestFaultUpgrade shows a program a directory of a later one.
func TestFaultUpgrade(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir string){
		"Format": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "format"), []byte("7\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"Pebble": func(t *testing.T, dir string) {
			t.Helper()
			markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
			if err != nil || len(markers) != 1 {
				t.Fatal(markers, err)
			}
			if err := os.Rename(markers[0], filepath.Join(dir, "marker.format-version.000099.999")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fill(t, 50)
			make(t, dir)
			before := image(t, dir)
			o := options(dir, nil)
			o.Quarantine = true
			_, err := queue.Open(o)
			newer, ok := errors.AsType[*queue.FormatError](err)
			if !ok || newer.Format < 2 || !strings.Contains(err.Error(), "this program knows format 1") {
				t.Errorf("got %v", err)
			}
			if after := image(t, dir); after != before {
				t.Errorf("the directory was touched:\n%s\n%s", before, after)
			}
		})
	}
	t.Run("WithoutFile", func(t *testing.T) {
		dir := fill(t, 50) // as a program before the file was
		if err := os.Remove(filepath.Join(dir, "format")); err != nil {
			t.Fatal(err)
		}
		q := open(t, options(dir, nil))
		if got := ids(t, q, "a"); len(got) != 50 {
			t.Errorf("%d records", len(got))
		}
		closeQueue(t, q)
		if content, err := os.ReadFile(filepath.Join(dir, "format")); err != nil || string(content) != "1\n" {
			t.Errorf("%q, %v", content, err)
		}
	})
}
