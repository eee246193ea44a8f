// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Patience is how long a tab may take for all it does: a browser that hangs must not hang the suite.
const Patience = 4 * time.Minute

// manyLoads is more than what loads while nobody waits for one.
const manyLoads = 1000

// Options are what a tab shows.
type Options struct {
	// Base is what stands before the paths of pages.
	Base string
	// Own begin the addresses that the tab may ask: all others are wrong.
	Own []string
	// Expected are parts of complaints that a test means to cause.
	Expected []string
	// Unread are elements, as a selector, whose contrast does not matter.
	Unread string
	// Refusal begins the title of the page that is shown in place of another one; empty: there is none.
	Refusal string
}

// Tab shows pages and writes down what they should not do. Its methods end the test where they fail.
type Tab struct {
	// Ctx has the tab, for actions that are not here.
	Ctx context.Context // chromedp keeps the tab in it

	t       testing.TB
	options Options
	// loads are the documents that are loaded, by the loaders of which the browser tells.
	loads chan cdp.LoaderID
	// shown is the document of the tab; only events read and write it, one after the other.
	shown cdp.LoaderID

	mu sync.Mutex
	// wrong are requests to others, dialogs, complaints and errors of scripts.
	wrong []string
}

// Open opens a tab of a browser, which is closed with the test.
func Open(t testing.TB, browser context.Context, o Options) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &Tab{t: t, options: o, loads: make(chan cdp.LoaderID, manyLoads)}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	b.Ctx, cancel = context.WithTimeout(ctx, Patience)
	t.Cleanup(cancel)
	t.Cleanup(b.check)
	return b
}

func (b *Tab) note(event any) {
	switch e := event.(type) {
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			b.shown = e.Frame.LoaderID
		}
	case *page.EventLoadEventFired:
		select {
		case b.loads <- b.shown:
		default:
			b.blame("more pages than a test may visit between two links")
		}
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if !slices.ContainsFunc(b.options.Own, func(o string) bool { return strings.HasPrefix(u, o) }) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			b.blame("request to " + u)
		}
	case *page.EventJavascriptDialogOpening:
		b.blame("dialog " + e.Message)
	case *log.EventEntryAdded:
		b.blame("complaint " + e.Entry.Text + " " + e.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.blame("exception " + e.ExceptionDetails.Text)
	}
}

func (b *Tab) blame(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.options.Expected, func(part string) bool { return strings.Contains(what, part) }) {
		b.wrong = append(b.wrong, what)
	}
}

// check tells what the tab has done wrong.
func (b *Tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		b.t.Error(wrong)
	}
	b.wrong = nil
}

// Do does something.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.Ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Visit shows a page.
func (b *Tab) Visit(path string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(b.options.Base + path))
	if title := Eval[string](b, "document.title"); title == "" || b.options.Refusal != "" && strings.HasPrefix(title, b.options.Refusal) {
		b.t.Fatalf("%s shows %q", path, title)
	}
}

// Leads does what must lead to another page, and waits until that is there. The word that the page before is loaded may come late: it is told
// from the other one by its document.
func (b *Tab) Leads(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	before := Call(b, page.GetFrameTree, cdp.Empty{}).FrameTree.Frame.LoaderID
	for len(b.loads) > 0 {
		<-b.loads
	}
	b.Do(actions...)
	for {
		select {
		case loaded := <-b.loads:
			if loaded != before {
				return
			}
		case <-b.Ctx.Done():
			b.t.Fatal("no page was loaded")
		}
	}
}

// Shows waits until the page has a text.
func (b *Tab) Shows(text string) {
	b.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Do(chromedp.Poll[chromedp.Void](
		"document.body.innerText.includes("+string(quoted)+")", chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(Patience)))
}

// Until waits until an expression is true.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	b.Do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(Patience)))
}

// Eval is the value of an expression.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.Ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Call has the browser do something that pages cannot.
func Call[P, R any](b *Tab, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.Ctx, command, parameters)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// Screen has the tab be as wide as a screen, in the colours of a theme.
func (b *Tab) Screen(theme string, width int64) {
	b.t.Helper()
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
}

// Picture keeps the page that is shown, where somebody wants pictures.
func (b *Tab) Picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
