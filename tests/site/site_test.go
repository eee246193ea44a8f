// SPDX-License-Identifier: Apache-2.0

package site

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const written = `<!doctype html><html><head><link href="style.css"></head><body><nav><a href="kinds/scan.html#status">Scan</a></nav>
<article><p>Before.</p><h1 id="top">A <code>page</code></h1><p>Some <b>text</b>.</p>
<h2 id="more">More <a class="anchor" href="#more">#</a></h2><table><tr><td>one</td><td>two</td></tr></table><pre>three
four</pre></article></body></html>`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	want := &Page{
		Title: "A page", IDs: map[string]bool{"top": true, "more": true}, Links: []string{"style.css", "kinds/scan.html#status", "#more"},
		Sections: []Section{{Text: "Before."}, {ID: "top", Heading: "A page", Text: "Some text."}, {ID: "more", Heading: "More", Text: "one two three four"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBroken(t *testing.T) {
	pages := map[string]*Page{
		"index.html": {IDs: map[string]bool{"here": true}, Links: []string{
			"kinds/scan.html#status", "kinds/scan.html", "#here", "style.css", "https://example.com/x#y", "../versions.js", "mailto:a@example.com",
			"kinds/scan.html#gone", "gone.html", "#gone", "%zz",
		}},
		"kinds/scan.html": {IDs: map[string]bool{"status": true}, Links: []string{"../index.html#here", "../style.css", "index.html"}},
	}
	want := []string{
		`index.html: link "kinds/scan.html#gone" names an anchor that is not there`, `index.html: link "gone.html" leads nowhere`,
		`index.html: link "#gone" names an anchor that is not there`, `index.html: link "%zz" parse "%zz": invalid URL escape "%zz"`,
		`kinds/scan.html: link "index.html" leads nowhere`,
	}
	if diff := cmp.Diff(want, Broken(pages, map[string]bool{"style.css": true, "../versions.js": true})); diff != "" {
		t.Error(diff)
	}
}

func TestIndex(t *testing.T) {
	p, err := Parse([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Index(map[string]*Page{"a.html": p})
	if err != nil {
		t.Fatal(err)
	}
	want := `window.scanyardIndex=[["a.html","A page","A page","Before."],["a.html","A page","A page","Some text."],["a.html#more","A page","More","one two three four"]];` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestReleased(t *testing.T) {
	got := Released([]string{"v0.2.0", "v0.10.1", "v0.10.0", "v1.0.0-rc.1", "v0.9.3", "v2", "vendored"})
	if diff := cmp.Diff([]string{"v0.10.1", "v0.9.3", "v0.2.0"}, got); diff != "" {
		t.Error(diff)
	}
	if got := Released(nil); len(got) != 0 {
		t.Errorf("no tags: %v", got)
	}
}
