// SPDX-License-Identifier: Apache-2.0

package site

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/scanyard/scanyard/tests/browser"
)

// openBuilt opens the site that "make site" has built, from the disk, without a server.
func openBuilt(t *testing.T) *browser.Tab {
	t.Helper()
	folder := os.Getenv("SITE")
	if folder == "" {
		t.Skip(`SITE names no folder: "make check-site" builds the site and does`)
	}
	ctx, end, err := browser.Start(t.Context(), "about:blank")
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return browser.Open(t, ctx, browser.Options{Base: "file://" + folder + "/main/", Own: []string{"file://"}, Unread: ".out, .skip, .anchor"})
}

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
			b.Screen(theme, width)
			for _, path := range looks {
				where := path + ", " + theme + ", " + strconv.FormatInt(width, 10)
				b.Visit(path)
				b.LooksWell(where)
				b.Picture(strings.ReplaceAll(strings.TrimSuffix(path, ".html"), "/", "-") + "-" + strconv.FormatInt(width, 10) + "-" + theme)
			}
		}
	}
}

// TestBuiltSearch searches with the keyboard alone, and by a word that only one page has.
func TestBuiltSearch(t *testing.T) {
	b := openBuilt(t)
	b.Screen("light", 1440)
	b.Visit("kinds/scan.html")
	b.Do(chromedp.KeyEvent("/"))
	b.Until(`document.activeElement.id === "search"`)
	b.Do(chromedp.KeyEvent("queue fair"))
	b.Until(`document.querySelectorAll("#hits a").length > 0`)
	if typed := browser.Eval[string](b, `document.getElementById("search").value`); typed != "queue fair" {
		t.Errorf("the field holds %q", typed)
	}
	if first := browser.Eval[string](b, `document.querySelector("#hits a").textContent.toLowerCase()`); !strings.Contains(first, "fair") {
		t.Errorf("the first result is %q", first)
	}
	b.Picture("search")
	b.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowUp))
	if chosen := browser.Eval[string](b, `document.getElementById("search").getAttribute("aria-activedescendant")`); chosen != "hit-0" {
		t.Errorf("the arrows choose %q", chosen)
	}
	want := browser.Eval[string](b, `document.querySelector("#hits a").href`)
	b.Leads(chromedp.KeyEvent(kb.Enter))
	if got := browser.Eval[string](b, "location.href"); got != want {
		t.Errorf("Enter leads to %s, want %s", got, want)
	}

	b.Do(chromedp.KeyEvent("/"))
	b.Until(`document.activeElement.id === "search"`)
	b.Do(chromedp.KeyEvent("xyzzynothing"))
	b.Until(`document.getElementById("hits").textContent.includes("Nothing has all of these words")`)
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(`document.getElementById("hits").hidden`)
}

// TestBuiltControls presses what there is to press: theme, versions, and the menu of a small screen.
func TestBuiltControls(t *testing.T) {
	b := openBuilt(t)
	b.Screen("light", 360)
	b.Visit("concepts.html")
	if browser.Eval[bool](b, `document.getElementById("menu").checkVisibility()`) {
		t.Error("a small screen begins with the menu")
	}
	b.Do(chromedp.Click(chromedp.CSS("#open")))
	b.Until(`document.getElementById("menu").checkVisibility() && document.getElementById("open").getAttribute("aria-expanded") === "true"`)
	b.Picture("menu-360")
	b.Do(chromedp.Click(chromedp.CSS("#theme")))
	b.Until(`document.documentElement.dataset.theme === "dark"`)
	b.Visit("delivery.html")
	if got := browser.Eval[string](b, "document.documentElement.dataset.theme"); got != "dark" {
		t.Errorf("the next page has the theme %q", got)
	}
	versions := browser.Eval[[]string](b, `[...document.getElementById("versions").options].map((o) => o.value)`)
	if !slices.Contains(versions, "main") || browser.Eval[string](b, `document.getElementById("versions").value`) != "main" {
		t.Errorf("versions: %q", versions)
	}
}
