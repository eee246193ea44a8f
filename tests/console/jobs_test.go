// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/browser"
)

// TestPointer does the main job of the pages by clicking: from the overview to a finding, and a Scan from its start to its end.
func TestPointer(t *testing.T) {
	ns := w.namespace(t, "pointer")
	w.found(t, w.scan(t, ns, "shop", done), finding("Outdated OpenSSL", "HIGH"), finding("Open port 22", "LOW"))
	w.found(t, w.scan(t, ns, "mail", done), finding("TLS 1.0 is offered", "MEDIUM"))
	b := open(t)
	b.Visit("/?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS(`nav a[href="/findings"]`)))
	b.Visit("/findings?ns=" + ns)
	b.Do(chromedp.Click(chromedp.CSS(`details[data-fold] summary`))) // it is folded in a window as small as that of the tests
	b.Leads(chromedp.Click(chromedp.CSS(`input[name="severity"][value="high"]`)), chromedp.Click(chromedp.CSS(`form.facets button.main`)))
	if rows := browser.Eval[int](b, `document.querySelectorAll("main tbody tr").length`); rows != 1 {
		t.Errorf("%d findings are high, want 1", rows)
	}
	b.Leads(chromedp.Click(chromedp.CSS("main tbody td.long a")))
	if got := browser.Eval[string](b, `document.querySelector("h1").textContent`); got != "Outdated OpenSSL" {
		t.Errorf("the finding is %q", got)
	}
	b.Visit("/scans/new?ns=" + ns)
	b.Leads(
		chromedp.SetValue(chromedp.CSS(`main input[name="namespace"]`), ns), chromedp.SendKeys(chromedp.CSS(`main input[name="type"]`), "nmap"),
		chromedp.SendKeys(chromedp.CSS(`main textarea[name="parameters"]`), "-sV\nshop.example"), chromedp.Click(chromedp.CSS("main form button.main")),
	)
	list := &executionv1.ScanList{}
	if err := w.cluster.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(s executionv1.Scan) bool { return slices.Equal(s.Spec.Parameters, []string{"-sV", "shop.example"}) })
	if i < 0 {
		t.Fatalf("no Scan was started; the page shows %q", browser.Eval[string](b, "document.body.innerText"))
	}
	started := &list.Items[i]
	b.Visit("/scans/" + ns + "/" + started.Name)
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/cancel"] button`)))
	if !w.read(t, ns, started.Name).Cancelled() {
		t.Errorf("the Scan goes on; the page shows %q", browser.Eval[string](b, "document.body.innerText"))
	}
}

// TestKeyboard reaches the search and a finding without a pointer.
func TestKeyboard(t *testing.T) {
	ns := w.namespace(t, "keyboard")
	w.found(t, w.scan(t, ns, "shop", done), finding("Outdated OpenSSL", "HIGH"))
	w.found(t, w.scan(t, ns, "mail", done), finding("TLS 1.0 is offered", "MEDIUM"))
	b := open(t)
	b.Visit("/findings?ns=" + ns)
	b.Do(chromedp.KeyEvent("/"))
	if got := browser.Eval[string](b, "document.activeElement.id"); got != "search" {
		t.Errorf("/ leads to %q", got)
	}
	b.Visit("/findings?ns=" + ns)
	b.Do(chromedp.KeyEvent(kb.Tab))
	if got := browser.Eval[string](b, "document.activeElement.className"); got != "skip" {
		t.Errorf("the first Tab leads to %q, want the link to the page", got)
	}
	stops := browser.Eval[int](b, `document.querySelectorAll("a, button, input, select, summary, textarea").length`)
	for range stops {
		b.Do(chromedp.KeyEvent(kb.Tab))
		if strings.Contains(browser.Eval[string](b, "document.activeElement.textContent"), "Outdated OpenSSL") {
			b.Leads(chromedp.KeyEvent(kb.Enter))
			if got := browser.Eval[string](b, `document.querySelector("h1").textContent`); got != "Outdated OpenSSL" {
				t.Errorf("Enter leads to %q", got)
			}
			return
		}
	}
	t.Errorf("%d Tabs do not lead to a finding", stops)
}

// TestLivePages changes a Scan while its page and the list are open.
func TestLivePages(t *testing.T) {
	ns := w.namespace(t, "live")
	for path, name := range map[string]string{"/scans?ns=" + ns: "listed", "/scans/" + ns + "/shown": "shown"} {
		s := w.scan(t, ns, name, running)
		b := open(t)
		b.Visit(path)
		b.Shows("Scanning")
		w.says(t, s, failed("The target of "+name+" has hung up."))
		b.Shows("The target of " + name + " has hung up.")
	}
}

// hostile are texts that must be shown as they are.
var hostile = strings.Join([]string{
	`<script>document.title='owned'</script>`, `"><img src=https://evil.example/x onerror=alert(1)>`, `'><svg/onload=fetch('https://evil.example/')>`,
	`javascript:alert(document.cookie)`, `{{.Session.Token}}`, "</textarea></title></pre><iframe src=https://evil.example></iframe>", "\x1b[2J\u202eevil",
}, " ")

// TestHostilePagesRunNothing shows hostile texts: no script of theirs runs, and nothing is asked for elsewhere.
func TestHostilePagesRunNothing(t *testing.T) {
	ns := w.namespace(t, "hostile")
	w.scan(t, ns, "bad", failed(hostile))
	good := &executionv1.Scan{}
	good.Namespace, good.Name, good.Spec.ScanType, good.Spec.Parameters = ns, "good", "nmap", []string{hostile}
	w.create(t, good)
	f := finding("f", "HIGH")
	for _, key := range []string{"name", "description", "mitigation", "location", "category"} {
		f[key] = hostile
	}
	f["references"], f["attributes"] = []any{map[string]any{"type": "URL", "value": "javascript:alert(1)"}}, map[string]any{hostile: []any{hostile}}
	w.found(t, good, f)
	w.found(t, w.scan(t, ns, "other", done), finding("other", "LOW"))
	b := open(t)
	for _, path := range []string{
		"/?ns=" + ns, "/scans?ns=" + ns, "/scans/" + ns + "/bad", "/scans/" + ns + "/good", "/findings?ns=" + ns, "/findings/fp-f?scan=good&ns=" + ns,
		"/findings?" + url.Values{"ns": {ns}, "q": {hostile}}.Encode(),
	} {
		b.Visit(path)
		if title := browser.Eval[string](b, "document.title"); title == "owned" {
			t.Errorf("a script of %s has run", path)
		}
		for _, scheme := range browser.Eval[[]string](b, `[...document.querySelectorAll("a[href]")].map((a) => a.protocol)`) {
			if scheme != "http:" && scheme != "https:" {
				t.Errorf("%s has a link by %s", path, scheme)
			}
		}
	}
}

// TestWithoutScript does the main job of the pages in a browser that runs none: links, a filter and a form.
func TestWithoutScript(t *testing.T) {
	ns := w.namespace(t, "scriptless")
	w.scan(t, ns, "office", running)
	b := open(t)
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.Leads(chromedp.Navigate(w.url + "/scans?ns=" + ns))
	b.Leads(chromedp.Click(chromedp.CSS(`main tbody a`)))
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/cancel"] button`)))
	if !w.read(t, ns, "office").Cancelled() {
		t.Errorf("the Scan goes on; the page shows %q", browser.Eval[string](b, "document.body.innerText"))
	}
}
