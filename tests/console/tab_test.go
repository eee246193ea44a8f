// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab shows the console and writes down what it should not do.
type tab struct {
	t     *testing.T
	ctx   context.Context // chromedp keeps the tab in it
	loads chan struct{}
	// own are the addresses that the tab may ask: all others are wrong.
	own []string
	// expected are parts of complaints that a test means to cause.
	expected []string

	mu sync.Mutex
	// wrong are requests to others, dialogs, complaints and errors of scripts.
	wrong []string
}

// patience is how long a tab may take for all it does: a browser that hangs must not hang the suite.
const patience = 4 * time.Minute

// open opens a tab of the browser, which is closed with the test.
func open(t *testing.T) *tab {
	t.Helper()
	return openAt(t, []string{w.url})
}

// openAt opens a tab that may ask these addresses, and may complain of some things.
func openAt(t *testing.T, own []string, expected ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(w.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, loads: make(chan struct{}, 1), own: own, expected: expected}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	b.ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	t.Cleanup(b.check)
	return b
}

func (b *tab) note(event any) {
	switch e := event.(type) {
	case *page.EventLoadEventFired:
		select {
		case b.loads <- struct{}{}:
		default: // one that nobody has waited for is there already
		}
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if !slices.ContainsFunc(b.own, func(o string) bool { return strings.HasPrefix(u, o+"/") }) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
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

func (b *tab) blame(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(what, part) }) {
		b.wrong = append(b.wrong, what)
	}
}

// check tells what the tab has done wrong.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		b.t.Error(wrong)
	}
	b.wrong = nil
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// visit shows a page.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(w.url + path))
	if title := eval[string](b, "document.title"); title == "" || strings.HasPrefix(title, "Sign in") {
		b.t.Fatalf("%s shows %q", path, title)
	}
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

// shows waits until the page has a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Poll[chromedp.Void]("document.body.innerText.includes("+string(quoted)+")", chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(patience)))
}

// eval is the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// call has the browser do something that pages cannot.
func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, parameters)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// controls are the roles that must have a name.
var controls = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "checkbox": true, "radio": true, "combobox": true, "listbox": true,
	"DisclosureTriangle": true, "menuitem": true, "tab": true, "spinbutton": true,
}

// unnamed are controls that the accessibility tree has no name for.
func (b *tab) unnamed() (out []string) {
	b.t.Helper()
	for _, n := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil || !controls[word(b.t, n.Role)] {
			continue
		}
		if n.Name == nil || strings.TrimSpace(word(b.t, n.Name)) == "" {
			out = append(out, word(b.t, n.Role))
		}
	}
	return out
}

func word(t *testing.T, v *accessibility.Value) string {
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
