// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a browser may take for all it does.
const patience = 5 * time.Minute

// tab is a tab of a browser that shows the site from the disk, without a server.
type tab struct {
	t     *testing.T
	ctx   context.Context
	site  string
	loads chan struct{}
	wrong []string
}

// openBuilt opens the site that "make site" has built.
func openBuilt(t *testing.T) *tab {
	t.Helper()
	folder := os.Getenv("SITE")
	if folder == "" {
		t.Skip(`SITE names no folder: "make check-site" builds the site and does`)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium")), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, site: "file://" + folder + "/main/", loads: make(chan struct{}, 1)}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, wrong := range b.wrong {
			t.Error(wrong)
		}
	})
	return b
}

// note writes down what a page must not do.
func (b *tab) note(event any) {
	switch e := event.(type) {
	case *page.EventLoadEventFired:
		select {
		case b.loads <- struct{}{}:
		default: // one that nobody has waited for is there already
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "file://") && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			b.wrong = append(b.wrong, "request to "+u)
		}
	case *log.EventEntryAdded:
		b.wrong = append(b.wrong, "complaint "+e.Entry.Text+" "+e.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception "+e.ExceptionDetails.Text)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.site + path))
}

// leads does what must lead to another page, and waits until that is there.
func (b *tab) leads(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	select {
	case <-b.loads: // of the page before
	default:
	}
	b.do(actions...)
	select {
	case <-b.loads:
	case <-b.ctx.Done():
		b.t.Fatal("no page was loaded")
	}
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience)))
}

func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, parameters); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) screen(theme string, width int64) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
}

// contrasts are texts whose contrast with what is behind them is less than AA asks for.
const contrasts = `(() => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode() && bad.size < 20) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest(".out, .skip, .anchor")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + walk.currentNode.data.trim().slice(0, 20));
  }
  return [...bad];
})()`

// looks are pages of each sort.
var looks = []string{
	"index.html", "concepts.html", "troubleshooting.html", "console.html", "kinds/index.html", "kinds/scan.html", "charts/index.html", "charts/nmap/readme.html",
	"reference/index.html", "reference/cli.html", "reference/api.html", "decisions/index.html", "changelog.html", "installing.html",
}

// TestBuiltLooks shows pages of each sort on a small and on a usual screen, light and dark: nothing is cut off at the side, each text has
// the contrast that AA asks for, there is one heading of the page.
func TestBuiltLooks(t *testing.T) {
	b := openBuilt(t)
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1440} {
			b.screen(theme, width)
			for _, path := range looks {
				where := path + ", " + theme + ", " + strconv.FormatInt(width, 10)
				b.visit(path)
				if got := eval[int](b, `document.querySelectorAll("h1").length`); got != 1 {
					t.Errorf("%s: %d headings of the page", where, got)
				}
				if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
					t.Errorf("%s: %d pixels are cut off", where, over)
				}
				for _, bad := range eval[[]string](b, contrasts) {
					t.Errorf("%s: contrast of %s", where, bad)
				}
				b.picture(strings.ReplaceAll(strings.TrimSuffix(path, ".html"), "/", "-") + "-" + strconv.FormatInt(width, 10) + "-" + theme)
			}
		}
	}
}

// picture keeps what the tab shows, where somebody wants pictures.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestBuiltSearch searches with the keyboard alone, and by a word that only one page has.
func TestBuiltSearch(t *testing.T) {
	b := openBuilt(t)
	b.screen("light", 1440)
	b.visit("kinds/scan.html")
	b.do(chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id === "search"`)
	b.do(chromedp.KeyEvent("queue fair"))
	b.until(`document.querySelectorAll("#hits a").length > 0`)
	if typed := eval[string](b, `document.getElementById("search").value`); typed != "queue fair" {
		t.Errorf("the field holds %q", typed)
	}
	if first := eval[string](b, `document.querySelector("#hits a").textContent.toLowerCase()`); !strings.Contains(first, "fair") {
		t.Errorf("the first result is %q", first)
	}
	b.picture("search")
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowUp))
	if chosen := eval[string](b, `document.getElementById("search").getAttribute("aria-activedescendant")`); chosen != "hit-0" {
		t.Errorf("the arrows choose %q", chosen)
	}
	want := eval[string](b, `document.querySelector("#hits a").href`)
	b.leads(chromedp.KeyEvent(kb.Enter))
	if got := eval[string](b, "location.href"); got != want {
		t.Errorf("Enter leads to %s, want %s", got, want)
	}

	b.do(chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id === "search"`)
	b.do(chromedp.KeyEvent("xyzzynothing"))
	b.until(`document.getElementById("hits").textContent.includes("Nothing has all of these words")`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until(`document.getElementById("hits").hidden`)
}

// TestBuiltControls presses what there is to press: theme, versions, and the menu of a small screen.
func TestBuiltControls(t *testing.T) {
	b := openBuilt(t)
	b.screen("light", 360)
	b.visit("concepts.html")
	if eval[bool](b, `document.getElementById("menu").checkVisibility()`) {
		t.Error("a small screen begins with the menu")
	}
	b.do(chromedp.Click(chromedp.CSS("#open")))
	b.until(`document.getElementById("menu").checkVisibility() && document.getElementById("open").getAttribute("aria-expanded") === "true"`)
	b.picture("menu-360")
	b.do(chromedp.Click(chromedp.CSS("#theme")))
	b.until(`document.documentElement.dataset.theme === "dark"`)
	b.visit("delivery.html")
	if got := eval[string](b, "document.documentElement.dataset.theme"); got != "dark" {
		t.Errorf("the next page has the theme %q", got)
	}
	versions := eval[[]string](b, `[...document.getElementById("versions").options].map((o) => o.value)`)
	if !slices.Contains(versions, "main") || eval[string](b, `document.getElementById("versions").value`) != "main" {
		t.Errorf("versions: %q", versions)
	}
}
