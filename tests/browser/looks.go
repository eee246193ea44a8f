// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
)

// contrasts is a function for texts whose contrast with what is behind them is less than AA asks for.
const contrasts = `((unread) => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; }
    return [255, 255, 255];
  };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode() && bad.size < 20) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest(unread)) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + walk.currentNode.data.trim().slice(0, 20));
  }
  return [...bad];
})`

// LooksWell tells what is wrong with the page that is shown: it has one heading of the page, nothing is cut off at the side, and each text has the
// contrast that AA asks for.
func (b *Tab) LooksWell(where string) {
	b.t.Helper()
	if got := Eval[int](b, `document.querySelectorAll("h1").length`); got != 1 {
		b.t.Errorf("%s: %d headings of the page", where, got)
	}
	if over := Eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		b.t.Errorf("%s: %d pixels are cut off", where, over)
	}
	unread, err := json.Marshal(b.options.Unread)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, bad := range Eval[[]string](b, contrasts+"("+string(unread)+")") {
		b.t.Errorf("%s: contrast of %s", where, bad)
	}
}

// controls are the roles that must have a name.
var controls = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "checkbox": true, "radio": true, "combobox": true, "listbox": true,
	"DisclosureTriangle": true, "menuitem": true, "tab": true, "spinbutton": true,
}

// Named tells which controls the accessibility tree has no name for.
func (b *Tab) Named(where string) {
	b.t.Helper()
	for _, n := range Call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil || !controls[word(b.t, n.Role)] {
			continue
		}
		if n.Name == nil || strings.TrimSpace(word(b.t, n.Name)) == "" {
			b.t.Errorf("%s: a %s has no name", where, word(b.t, n.Role))
		}
	}
}

func word(t testing.TB, v *accessibility.Value) string {
	t.Helper()
	if len(v.Value) == 0 {
		return ""
	}
	var text string
	if err := json.Unmarshal(v.Value, &text); err != nil {
		t.Fatalf("%s: %v", v.Value, err)
	}
	return text
}
