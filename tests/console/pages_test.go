// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/tests/browser"
)

// heading is the heading of the page that is shown.
func heading(t *testing.T, b *browser.Tab) string {
	t.Helper()
	return browser.Eval[string](b, `document.querySelector("h1").textContent`)
}

func (w *world) get(t *testing.T, namespace, name string, into client.Object) {
	t.Helper()
	if err := w.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

func schedule(namespace, name string) *executionv1.ScheduledScan {
	s := &executionv1.ScheduledScan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Interval, s.Spec.ScanSpec = "24h", &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"shop.example"}}
	return s
}

func board(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"scanyard.io/board": "team"}},
		Data:       map[string]string{"title": "Monday", "filters": "High | /findings?severity=high\nFailed | /scans?state=errored\nTeams | /teams\n"},
	}
}

func exceptions(t *testing.T, namespace string) []settingsv1alpha2.FindingException {
	t.Helper()
	list := &settingsv1alpha2.FindingExceptionList{}
	if err := w.cluster.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestExceptionsFromTheirFindingToTheirEnd chooses findings in the list, sees what an exception would match, makes and ends it.
func TestExceptionsFromTheirFindingToTheirEnd(t *testing.T) {
	ns := w.namespace(t, "excepted")
	w.found(t, w.scan(t, ns, "shop", done), finding("Outdated OpenSSL", "HIGH"), finding("Open port 22", "LOW"), finding("Open port 80", "LOW"))
	b := open(t)
	b.Visit("/findings?ns=" + ns)
	b.Do(
		chromedp.Click(chromedp.CSS(`input[value="`+ns+`/fp-Open-port-22"]`)), chromedp.Click(chromedp.CSS(`input[value="`+ns+`/fp-Open-port-80"]`)),
	)
	b.Leads(chromedp.Click(chromedp.CSS(`form[action="/exceptions/new"] button`)))
	b.Do(chromedp.SendKeys(chromedp.CSS(`textarea[name="reason"]`), "These ports are meant to be open."))
	b.Leads(chromedp.Click(chromedp.CSS(`button[value="preview"]`)))
	if got := browser.Eval[string](b, `document.querySelector("#preview h2").textContent`); got != "It would match 2 findings of the newest runs" {
		t.Errorf("the preview says %q", got)
	}
	b.Leads(chromedp.Click(chromedp.CSS(`button[value="make"]`)))
	made := exceptions(t, ns)
	if len(made) != 1 || len(made[0].Spec.Match.AnyOf[0].Fingerprints) != 2 {
		t.Fatalf("made is %+v; the page shows %q", made, browser.Eval[string](b, "document.body.innerText"))
	}
	b.Do(chromedp.Click(chromedp.CSS(`details:has(form[action$="/end"]) summary`)))
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/end"] button`)))
	ended := &settingsv1alpha2.FindingException{}
	w.get(t, ns, made[0].Name, ended)
	if !ended.Spec.ExpiresAt.Before(made[0].Spec.ExpiresAt) {
		t.Errorf("it ends at %s still", ended.Spec.ExpiresAt)
	}
	b.Visit("/exceptions?ns=" + ns)
	b.Shows("Ended")
}

// TestVEXDocuments imports one, which shows first what it would make.
func TestVEXDocuments(t *testing.T) {
	ns := w.namespace(t, "vex")
	b := open(t)
	b.Visit("/exceptions/import?ns=" + ns)
	const document = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://vendor.example/1","author":"Vendor","timestamp":"2026-01-01T00:00:00Z","version":1,` +
		`"statements":[{"vulnerability":{"name":"CVE-2024-1"},"products":[{"@id":"pkg:npm/a@1"}],"status":"fixed"}]}`
	b.Do(chromedp.SendKeys(chromedp.CSS(`textarea[name="document"]`), document))
	b.Leads(chromedp.Click(chromedp.CSS(`button[value="check"]`)))
	b.Shows("It would make 1 exception")
	if n := len(exceptions(t, ns)); n != 0 {
		t.Fatalf("showing has made %d exceptions", n)
	}
	b.Leads(chromedp.Click(chromedp.CSS(`button[value="import"]`)))
	b.Shows("Imported.")
	if made := exceptions(t, ns); len(made) != 1 || made[0].Spec.Status != settingsv1alpha2.ExceptionMitigated {
		t.Errorf("made is %+v", made)
	}
}

// TestSchedules runs one now, and suspends it.
func TestSchedules(t *testing.T) {
	ns := w.namespace(t, "scheduled")
	w.create(t, schedule(ns, "nightly"))
	b := open(t)
	b.Visit("/schedules?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS("main tbody td.long a")))
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/trigger"] button`)))
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/suspend"] button`)))
	b.Shows("Resume")
	s := &executionv1.ScheduledScan{}
	w.get(t, ns, "nightly", s)
	if s.Spec.Suspend == nil || !*s.Spec.Suspend || s.Status.LastScheduleTime == nil {
		t.Errorf("it is %+v", s)
	}
}

// TestBoards keeps a filter on a board, and shares the board.
func TestBoards(t *testing.T) {
	ns := w.namespace(t, "boards")
	w.found(t, w.scan(t, ns, "shop", done), finding("Outdated OpenSSL", "HIGH"), finding("Open port 22", "LOW"))
	b := open(t)
	b.Visit("/findings?severity=high&ns=" + ns)
	b.Do(
		chromedp.Click(chromedp.CSS(`details:has(form[action="/boards"]) summary`)), chromedp.SendKeys(chromedp.CSS(`input[name="board"]`), ns),
	)
	b.Leads(chromedp.Click(chromedp.CSS(`form[action="/boards"] button`)))
	b.Shows("Outdated OpenSSL")
	if text := browser.Eval[string](b, `document.querySelector("main").innerText`); heading(t, b) != ns || len(text) == 0 {
		t.Errorf("the board is %q: %s", heading(t, b), text)
	}
	b.Do(
		chromedp.Click(chromedp.CSS(`details:has(form[action$="/share"]) summary`)), chromedp.SendKeys(chromedp.CSS(`form[action$="/share"] input[name="namespace"]`), ns),
	)
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/share"] button`)))
	c := &corev1.ConfigMap{}
	w.get(t, ns, ns, c)
	if c.Labels["scanyard.io/board"] != "team" {
		t.Errorf("shared is %+v", c)
	}
	b.Visit("/boards?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS(`a[href="/boards/` + ns + `/` + ns + `"]`)))
	b.Shows("Outdated OpenSSL")
}

// TestSearchAndTeams go to a namespace by the keyboard, and from the table of teams.
func TestSearchAndTeams(t *testing.T) {
	ns := w.namespace(t, "sought")
	w.found(t, w.scan(t, ns, ns, done), finding("Outdated OpenSSL", "HIGH"))
	b := open(t)
	b.Visit("/teams?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS("main tbody a")))
	if heading(t, b) != ns {
		t.Errorf("the team is %q", heading(t, b))
	}
	b.Do(chromedp.KeyEvent("/"), chromedp.SetValue(chromedp.CSS("#search"), ns))
	b.Leads(chromedp.KeyEvent(kb.Enter))
	b.Leads(chromedp.Click(chromedp.CSS(`main a[href="/scans/` + ns + `/` + ns + `"]`)))
	if heading(t, b) != ns {
		t.Errorf("the search leads to %q", heading(t, b))
	}
}

// TestRegistriesAndReports suspends a Registry; what only the reports API knows says that it is not there.
func TestRegistriesAndReports(t *testing.T) {
	if err := w.cluster.InstallRegistryCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	ns := w.namespace(t, "registries")
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod"}}
	r.Spec.URL = "https://registry.example"
	w.create(t, r)
	b := open(t)
	b.Visit("/registries/" + ns + "/prod")
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/suspend"] button`)))
	b.Shows("Resume")
	w.get(t, ns, "prod", r)
	if !r.Spec.Suspend {
		t.Error("the Registry goes on")
	}
	b.Visit("/images?ns=" + ns)
	b.Shows("Repositories and images come with the reports API")
	b.Visit("/policyreports?ns=" + ns)
	b.Shows("The reports API is not installed.")
}
