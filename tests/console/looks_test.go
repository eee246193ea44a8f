// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// contrasts are texts whose contrast with what is behind them is less than AA asks for.
const contrasts = `(() => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest("svg, :disabled, .out")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + walk.currentNode.data.trim().slice(0, 20));
  }
  return [...bad];
})()`

// TestLooks shows each page on a small and on a usual screen, light and dark: nothing is cut off at the side, each text has
// the contrast that AA asks for, each control has a name.
func TestLooks(t *testing.T) {
	ns := w.namespace(t, "looks")
	shop := w.scan(t, ns, "shop", done)
	w.found(t, shop, finding("Outdated OpenSSL", "HIGH"), finding("TLS 1.0 is offered", "MEDIUM"), finding("Open port 22", "LOW"), finding("Open port 80", "INFORMATIONAL"))
	w.found(t, w.scan(t, ns, "mail", done), finding("TLS 1.0 is offered", "MEDIUM"))
	w.scan(t, ns, "broken", failed("The scanner ended with exit code 1: no route to host broken.example"))
	w.scan(t, ns, "office", running)
	w.scan(t, ns, "queued", waiting)
	w.create(t, schedule(ns, "nightly"))
	w.create(t, board(ns, "monday"))
	accepted := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "accepted"}}
	accepted.Spec.Status, accepted.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, "The scanner takes the old banner for the version."
	accepted.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{References: []string{"CVE-2024-1"}}}
	w.create(t, accepted)
	pages := []struct{ name, path string }{
		{"overview", "/?ns=" + ns},
		{"findings", "/findings?ns=" + ns},
		{"finding", "/findings/fp-Outdated-OpenSSL?scan=shop&ns=" + ns},
		{"scans", "/scans?ns=" + ns},
		{"scan", "/scans/" + ns + "/shop"},
		{"scan-failed", "/scans/" + ns + "/broken"},
		{"scan-running", "/scans/" + ns + "/office"},
		{"scan-new", "/scans/new?ns=" + ns},
		{"schedules", "/schedules?ns=" + ns},
		{"schedule", "/schedules/" + ns + "/nightly"},
		{"images", "/images?ns=" + ns},
		{"policies", "/policyreports?ns=" + ns},
		{"exceptions", "/exceptions?ns=" + ns},
		{"exception", "/exceptions/" + ns + "/accepted"},
		{"exception-new", "/exceptions/new?cluster=yes&ns=" + ns},
		{"import", "/exceptions/import?ns=" + ns},
		{"teams", "/teams?ns=" + ns},
		{"team", "/teams/" + ns},
		{"boards", "/boards?ns=" + ns},
		{"board", "/boards/" + ns + "/monday"},
		{"search", "/search?q=shop&ns=" + ns},
	}
	b := open(t)
	for _, look := range []struct {
		theme string
		width int64
	}{{"light", 360}, {"light", 1440}, {"dark", 360}, {"dark", 1440}} {
		b.screen(look.theme, look.width)
		for _, p := range pages {
			where := fmt.Sprintf("%s, %s, %d pixels", p.name, look.theme, look.width)
			b.visit(p.path)
			b.looksWell(where)
			b.picture(fmt.Sprintf("%s-%d-%s", p.name, look.width, look.theme))
		}
	}
}

// looksWell says what is wrong with the page that is shown.
func (b *tab) looksWell(where string) {
	b.t.Helper()
	if got := eval[int](b, `document.querySelectorAll("h1").length`); got != 1 {
		b.t.Errorf("%s: %d headings of the page", where, got)
	}
	if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		b.t.Errorf("%s: %d pixels are cut off", where, over)
	}
	for _, bad := range eval[[]string](b, contrasts) {
		b.t.Errorf("%s: contrast of %s", where, bad)
	}
	for _, bad := range b.unnamed() {
		b.t.Errorf("%s: a %s has no name", where, bad)
	}
}

// picture keeps what the tab shows, where somebody wants pictures.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
