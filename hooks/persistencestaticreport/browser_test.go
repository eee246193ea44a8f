// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/findings/report/reporttest"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// browser is a Chromium that shows a report and writes down what it does.
type browser struct {
	ctx context.Context // chromedp keeps the browser in it

	mu sync.Mutex
	// requests are all but the page's own; dialogs and complaints should not be.
	requests, dialogs, complaints []string
}

// chromium finds the browser. CHROMIUM names one that is elsewhere.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium: install one, or name it in CHROMIUM, to see the page work")
	return ""
}

// open shows a page from a file.
func open(t *testing.T, html []byte) *browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1000), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(time.Minute))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute) // a browser that hangs must not hang the suite
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) { b.note(ctx, event) }); err != nil {
		t.Fatal(err)
	}
	b.do(t, chromedp.Navigate("file://"+file), chromedp.WaitVisible(chromedp.CSS("#main")))
	return b
}

func (b *browser) note(ctx context.Context, event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasSuffix(e.Request.URL, "/report.html") {
			b.requests = append(b.requests, e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.dialogs = append(b.dialogs, e.Message)
		go func() {
			// It is noted already; here it only must not stand in the way.
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	}
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval is what an expression comes to.
func (b *browser) eval(t *testing.T, expression string) any {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](expression))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// until waits for an expression to become true.
func (b *browser) until(t *testing.T, expression string) {
	t.Helper()
	b.do(t, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(time.Minute)))
}

// quiet holds that the page did nothing but show itself.
func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff([3][]string{}, [3][]string{b.requests, b.dialogs, b.complaints}); diff != "" {
		t.Errorf("requests, dialogs, complaints (-want +got):\n%s", diff)
	}
}

// shot keeps a picture in the folder that SCREENSHOTS names, for people.
func (b *browser) shot(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPageInBrowser(t *testing.T) {
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"], w.Objects["/before.json"] = exampleScan, reporttest.VariedFindings(800), reporttest.VariedFindings(700)
	b := open(t, reports(t, w, map[string]string{"PREVIOUS_FINDINGS_URL": w.URLs("/before.json")[0]})["report.html"].Body)
	b.shot(t, "light")

	t.Run("Charts", func(t *testing.T) {
		drawn := map[string]any{
			"slices": b.eval(t, `document.querySelectorAll("#chart-severity path").length`),
			"total":  b.eval(t, `document.querySelector("#chart-severity .big").textContent`),
			"bars":   b.eval(t, `document.querySelectorAll("#chart-category .pick").length`),
			"places": b.eval(t, `document.querySelectorAll("#chart-location .pick").length`),
			"wide":   b.eval(t, `document.querySelector("#chart-category .pick rect.s3").getBoundingClientRect().width > 50`),
			"cards":  b.eval(t, `[...document.querySelectorAll(".card b")].reduce((n, c) => n + Number(c.textContent), 0)`),
			"title":  b.eval(t, `document.title`),
			"rows":   b.eval(t, `document.querySelectorAll(".item").length < 60`),
		}
		want := map[string]any{"slices": 4.0, "total": "800", "bars": 10.0, "places": 12.0, "wide": true, "cards": 900.0, "title": "nightly-1893499200", "rows": true}
		if diff := cmp.Diff(want, drawn); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("FilterAndSort", func(t *testing.T) {
		count := `document.getElementById("count").textContent`
		b.do(t, chromedp.Click(chromedp.CSS(`.card[data-severity="0"]`)))
		if got, want := b.eval(t, count), b.eval(t, `document.querySelector('.card[data-severity="0"] b').textContent + " of 800 findings"`); got != want {
			t.Errorf("after a click on a card: %v, want %v", got, want)
		}
		b.do(t, chromedp.SendKeys(chromedp.CSS("#search"), "shop-3.example weak"))
		b.until(t, `[...document.querySelectorAll(".item")].every((r) => r.textContent.includes("Weak Password") && r.textContent.includes("shop-3"))`)
		b.do(t, chromedp.Click(chromedp.CSS("#reset")))
		if got := b.eval(t, count); got != "800 findings" {
			t.Errorf("after clearing: %v", got)
		}
		b.do(t, chromedp.Click(chromedp.CSS(`[data-group="category"][data-value="Cookie"]`)))
		b.until(t, `[...document.querySelectorAll(".item")].every((r) => r.textContent.includes("Cookie"))`)
		b.shot(t, "filtered")
		b.do(t, chromedp.Click(chromedp.CSS("#reset")), chromedp.Click(chromedp.CSS(`#head > :nth-child(2) button`)))
		if got := b.eval(t, `document.querySelector(".item > :nth-child(2)").textContent`); got != "Cookie Without Secure Flag" {
			t.Errorf("first by name: %v", got)
		}
		b.do(t, chromedp.Click(chromedp.CSS(`[data-group="state"]`)))
		if got := b.eval(t, count); got != "100 of 800 findings" {
			t.Errorf("new ones: %v", got)
		}
		b.do(t, chromedp.Click(chromedp.CSS("#reset")))
	})
	t.Run("Detail", func(t *testing.T) {
		b.do(t, chromedp.Click(chromedp.CSS(".item")), chromedp.WaitVisible(chromedp.CSS("#detail")))
		text, ok := b.eval(t, `document.getElementById("detail").innerText`).(string)
		for _, want := range []string{"Cookie Without Secure Flag", "Second line.", "Change the settings", "CVE-2029-", "confidence", `"header": "Server: x"`} {
			if !ok || !strings.Contains(text, want) {
				t.Errorf("no word of %q in %s", want, text)
			}
		}
		b.shot(t, "detail")
		b.do(t, chromedp.KeyEvent("\x1b"), chromedp.WaitNotVisible(chromedp.CSS("#detail")))
	})
	t.Run("Dark", func(t *testing.T) {
		b.eval(t, `document.activeElement.blur()`)
		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, dark); err != nil {
			t.Fatal(err)
		}
		if got := b.eval(t, `getComputedStyle(document.body).backgroundColor`); got != "rgb(17, 21, 28)" {
			t.Errorf("background %v", got)
		}
		b.shot(t, "dark")
		b.do(t, chromedp.Click(chromedp.CSS("#theme")))
		if got := b.eval(t, `getComputedStyle(document.body).backgroundColor`); got != "rgb(244, 245, 248)" {
			t.Errorf("background %v after the switch", got)
		}
	})
	b.quiet(t)
}

// TestHostilePageInBrowser shows findings that try everything. Nothing of it may run, and all of it be shown as text.
func TestHostilePageInBrowser(t *testing.T) {
	w := sdktest.New(t)
	w.Scan = strings.ReplaceAll(exampleScan, `"nightly-1893499200"`, `"</title><script>alert('title')</script>{{data}}"`)
	w.Objects["/findings.json"] = reporttest.HostileFindings(t)
	b := open(t, reports(t, w, map[string]string{"REPORT_TITLE": `</title><img src=x onerror=alert("t")>{{script}}`})["report.html"].Body)
	b.shot(t, "hostile")
	for i := range reporttest.HostileTexts {
		b.eval(t, `document.querySelector('.item[data-place="`+strconv.Itoa(i)+`"]').click()`)
		b.until(t, `!document.getElementById("detail").hidden`)
		text := b.eval(t, `document.querySelector("#detail h2").textContent`)
		if text != reporttest.HostileTexts[i] {
			t.Errorf("%q is shown as %q", reporttest.HostileTexts[i], text)
		}
	}
	b.eval(t, `document.querySelectorAll('[data-group]').forEach((n) => n.dispatchEvent(new MouseEvent("click")))`)
	want := map[string]any{"ran": nil, "scripts": 2.0, "images": 0.0, "links": 0.0, "title": `</title><img src=x onerror=alert("t")>{{script}}`}
	got := map[string]any{
		"ran": b.eval(t, `window.ran === undefined ? null : window.ran`), "scripts": b.eval(t, `document.scripts.length`), "images": b.eval(t, `document.images.length + document.querySelectorAll("iframe,object,embed,form,base").length`),
		"links": b.eval(t, `document.links.length`), "title": b.eval(t, `document.title`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.quiet(t)
	// Even what were to get in would find the policy in its way.
	b.eval(t, `(() => {
		const s = document.createElement("script"); s.textContent = "window.ran = 1"; document.body.append(s);
		const i = document.createElement("img"); i.setAttribute("onerror", "window.ran = 2"); i.src = "data:broken"; document.body.append(i);
		fetch("http://127.0.0.1:9/").catch(() => { window.refused = true; });
	})()`)
	b.until(t, `window.refused === true`)
	if got := b.eval(t, `window.ran === undefined`); got != true {
		t.Error("the policy lets scripts run that are not the page's own")
	}
}

// TestLargePageInBrowser works with as many findings as a page has.
func TestLargePageInBrowser(t *testing.T) {
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = exampleScan, reporttest.VariedFindings(60_000)
	html := reports(t, w, map[string]string{"REPORT_FORMATS": "html"})["report.html"].Body
	b := open(t, html)
	b.shot(t, "large")
	took := b.eval(t, `(() => {
		const start = performance.now();
		document.querySelector("#head > :nth-child(4) button").click();
		document.querySelector('.card[data-severity="2"]').click();
		return performance.now() - start;
	})()`)
	t.Logf("page of %d MiB; sorting and filtering take %.0f ms", len(html)>>20, took)
	b.do(t, chromedp.Click(chromedp.CSS("#reset")))
	b.eval(t, `document.getElementById("scroll").scrollTop = 1e9`)
	b.until(t, `document.getElementById("row-49999") !== null`)
	got := []any{b.eval(t, `document.querySelectorAll(".item").length < 60`), b.eval(t, `document.getElementById("note").textContent`)}
	want := []any{true, "This page shows the first 50,000 of 60,000 findings, the worst first. Cards and charts count all; findings.json has all."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.quiet(t)
}
