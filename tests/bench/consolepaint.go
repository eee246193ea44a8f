// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/scanyard/scanyard/tests/browser/chromium"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

const (
	goalPaint  = 500 * time.Millisecond
	goalExport = 64 << 20
)

// firstPaint waits until a page has something to see, and is when that was, in milliseconds since the browser was told to go there.
const firstPaint = `new Promise((then) => new PerformanceObserver((list) => {
  for (const e of list.getEntries()) if (e.name === "first-contentful-paint") then(e.startTime);
}).observe({type: "paint", buffered: true}))`

// paint has a Chromium load the overview, and prints when it showed something first.
func (w *watchedConsole) paint(ctx context.Context, v *viewer) (err error) {
	browser, err := chromium.Find()
	if err != nil {
		fmt.Fprintln(w.o.Out, "first contentful paint: not measured:", err)
		return nil
	}
	dir, err := os.MkdirTemp("", "scanyard-bench-browser-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	allocator, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(2*time.Minute))...)
	defer cancel()
	tab, cancel := chromedp.NewContext(allocator)
	defer cancel()
	at, err := url.Parse(w.url)
	if err != nil {
		return err
	}
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		return fmt.Errorf("start %s: %w", browser, err)
	}
	for _, cookie := range v.client.Jar.Cookies(at) {
		if _, err := chromedp.Call(tab, network.SetCookie, network.SetCookieParams{Name: cookie.Name, Value: cookie.Value, URL: w.url}); err != nil {
			return fmt.Errorf("sign the browser in: %w", err)
		}
	}
	var times []time.Duration
	for range max(1, w.c.Visits) {
		if err := chromedp.Do(tab, chromedp.Navigate(w.url+"/")); err != nil {
			return fmt.Errorf("load the overview: %w", err)
		}
		ms, err := chromedp.Run(tab, chromedp.Evaluate[float64](firstPaint, chromedp.EvalAwaitPromise))
		if err != nil {
			return fmt.Errorf("wait for the first paint: %w", err)
		}
		times = append(times, time.Duration(ms*float64(time.Millisecond)))
	}
	first, p95 := times[0], quantile(times, 95)
	fmt.Fprintf(w.o.Out, "first contentful paint of the overview: the first %d ms, p50 %d, p95 %d, goal %d: %s\n", first.Milliseconds(),
		quantile(times, 50).Milliseconds(), p95.Milliseconds(), goalPaint.Milliseconds(), verdict(p95 <= goalPaint))
	return nil
}

// export has a console that has done nothing else send all findings as CSV.
func (w *watchedConsole) export(ctx context.Context, dir string) error {
	w.stop()
	if err := w.start(ctx, dir); err != nil {
		return err
	}
	w.c.Viewers = 1
	viewers, err := w.signIn(ctx)
	if err != nil {
		return err
	}
	before, err := usage.Of(w.process.Process.Pid)
	if err != nil {
		return err
	}
	begun := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/findings/export?format=csv&status=all", http.NoBody)
	if err != nil {
		return err
	}
	response, err := viewers[0].client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	rows := -1 // the first line names the columns
	lines := bufio.NewReader(response.Body)
	buffer := make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = lines.Read(buffer)
		rows += bytes.Count(buffer[:n], []byte("\n"))
	}
	after, failed := usage.Of(w.process.Process.Pid)
	if failed != nil {
		return failed
	}
	fmt.Fprintf(w.o.Out, "export of %d findings as CSV: %s, %.1f CPU s of the console; %d MiB at its peak, %d before, goal %d: %s\n", rows,
		time.Since(begun).Round(time.Second), (after.CPU - before.CPU).Seconds(), after.Peak>>20, before.Resident>>20, goalExport>>20,
		verdict(after.Peak <= goalExport))
	return nil
}
