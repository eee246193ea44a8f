// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

// lacks says what a page must not show.
func lacks(t *testing.T, a consoletest.Answer, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.Body, text) {
			t.Errorf("%s shows %q", a.Path, text)
		}
	}
}

func kept(t *testing.T, w *consoletest.World, namespace, name string) *settingsv1alpha2.FindingException {
	t.Helper()
	e := &settingsv1alpha2.FindingException{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExceptions(t *testing.T) {
	w := consoletest.Full(t).Enter()
	everything := w.Get("/exceptions")
	has(t, everything, "3 exceptions, 2 of them hold now", "accepted-tls", "Ends soon", "accepted-ports", "Active", "over", "Ended", "kim@example.com", "fp-excepted")
	if strings.Index(everything.Body, "accepted-tls") > strings.Index(everything.Body, "accepted-ports") || strings.Index(everything.Body, "accepted-ports") > strings.Index(everything.Body, ">over<") {
		t.Error("what ends soon does not come first, or what has ended not last")
	}
	lacks(t, w.Get("/exceptions?state=ending"), "accepted-ports", ">over<")
	lacks(t, w.Get("/exceptions?text=PORTS"), "accepted-tls")
	has(t, w.Get("/exceptions?status=Mitigated"), "No exceptions match.", "Clear the filter")
	has(t, w.Get("/exceptions?ns=platform"), "Nothing is excepted in platform.")
	if a := w.Get("/exceptions?after=x"); a.Code != http.StatusBadRequest {
		t.Errorf("a page that is none answers %d", a.Code)
	}
	w.Denied = []string{"list findingexceptions"}
	has(t, w.Get("/exceptions"), "You may not list findingexceptions.settings.scanyard.io in all namespaces.")
}

func TestOneException(t *testing.T) {
	w := consoletest.Full(t).Enter()
	s := scan(t, w, "nmap-shop")
	s.Status.Findings.Exceptions = []executionv1.ExceptionCount{{Name: "accepted-tls", Kind: "FindingException", Count: 7}}
	if err := w.Client.Status().Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	const page = "/exceptions/team-blue/accepted-tls"
	has(t, w.Get(page), "Fixed by the release of December", "fp-excepted", "Fingerprint", "nmap-shop", ">7<", "by kim@example.com", "in 6d")
	if a := w.Get("/exceptions/team-blue/none"); a.Code != http.StatusNotFound {
		t.Errorf("an exception that is not there answers %d", a.Code)
	}
	w = consoletest.Full(t).Enter() // rights are remembered for a minute
	w.Denied = []string{"patch findingexceptions team-blue", "delete findingexceptions team-blue"}
	has(t, w.Get(page), "You may not patch, delete findingexceptions.settings.scanyard.io in team-blue.", "disabled")
}

func TestExceptionsEnd(t *testing.T) {
	w := consoletest.Full(t).Enter()
	const page = "/exceptions/team-blue/accepted-tls"
	if a := w.Post(page, page+"/extend", "expires", "2027-01-31"); a.Path != page {
		t.Errorf("moving the end leads to %s", a.Path)
	}
	if got := kept(t, w, "team-blue", "accepted-tls").Spec.ExpiresAt; got == nil || got.UTC().Format(time.DateOnly) != "2027-01-31" {
		t.Errorf("the end is %v", got)
	}
	for _, day := range []string{"2026-11-23", "tomorrow", ""} {
		if a := w.Post(page, page+"/extend", "expires", day); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the end %q answers %d", day, a.Code)
		}
	}
	w.Post(page, page+"/end")
	if got := kept(t, w, "team-blue", "accepted-tls").Spec.ExpiresAt; !got.Equal(new(metav1.NewTime(consoletest.Noon))) {
		t.Errorf("it ends at %v", got)
	}
	has(t, w.Get(page), "Ended", "Bring back")
	if a := w.Post(page, page+"/end"); a.Code != http.StatusConflict {
		t.Errorf("ending twice answers %d", a.Code)
	}
	w.Denied = []string{"delete findingexceptions"}
	if a := w.Post(page, page+"/delete"); a.Code != http.StatusForbidden {
		t.Errorf("deleting without the right answers %d", a.Code)
	}
	w.Denied = nil
	if a := w.Post(page, page+"/delete"); a.Path != "/exceptions" {
		t.Errorf("deleting leads to %s", a.Path)
	}
	if a := w.Get(page); a.Code != http.StatusNotFound {
		t.Errorf("a deleted exception answers %d", a.Code)
	}
}

func TestExceptFinding(t *testing.T) {
	w := consoletest.Full(t).Enter()
	const finding = "/findings/fp-Outdated-OpenSSL?ns=team-blue&scan=nmap-shop"
	_, rest, found := strings.Cut(w.Get(finding).Body, `href="/exceptions/new?`)
	query, _, _ := strings.Cut(rest, `"`)
	query = html.UnescapeString(query)
	form := "/exceptions/new?" + query
	if !found {
		t.Fatal("the finding has no way to except it")
	}
	has(t, w.Get(form), `value="team-blue"`, "fp-Outdated-OpenSSL", `value="2027-02-21"`, "for Outdated OpenSSL")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	fields := []string{
		"namespace", "team-blue", "status", "Accepted", "fingerprints", values.Get("fingerprints"), "expires", "2027-02-21", "reason", "Fixed by the release of February.",
	}
	preview := w.Post(form, "/exceptions", append(fields, "do", "preview")...)
	if preview.Code != http.StatusOK || !strings.Contains(preview.Body, "It would match 1 finding of the newest runs") {
		t.Errorf("the preview answers %d:\n%s", preview.Code, preview.Body)
	}
	made := w.Post(form, "/exceptions", append(fields, "do", "make")...)
	name := strings.TrimPrefix(made.Path, "/exceptions/team-blue/")
	has(t, made, "Accepted", "Fixed by the release of February.")
	if e := kept(t, w, "team-blue", name); e.Spec.Match.AnyOf[0].Fingerprints[0] != "fp-Outdated-OpenSSL" {
		t.Errorf("it matches %+v", e.Spec.Match)
	}
	has(t, w.Get(finding), "Accepted", "until 2027-02-21", `href="/exceptions/team-blue/`+name+`"`)
	lacks(t, w.Get("/findings"), "Outdated OpenSSL")
	if again := w.Post(form, "/exceptions", append(fields, "do", "make")...); again.Code != http.StatusUnprocessableEntity || !strings.Contains(again.Body, "already exists") {
		t.Errorf("making it twice answers %d", again.Code)
	}
}

func TestFormShowsErrors(t *testing.T) {
	w := consoletest.Full(t).Enter()
	good := map[string]string{
		"namespace": "team-blue", "status": "Accepted", "references": "CVE-2024-3094", "expires": "2027-02-21", "reason": "Fixed by the release of February.",
	}
	for name, tc := range map[string]struct{ field, value, want string }{
		"NoStatus":      {"status", "", "Status: choose one."},
		"NoReason":      {"reason", "why not", "Reason: must have 10 to 2000 characters"},
		"NoEnd":         {"expires", "", "End: a risk is accepted for a time"},
		"Past":          {"expires", "2026-11-22", "is over"},
		"NoMatch":       {"references", "", "Findings: say which are meant"},
		"NoNamespace":   {"namespace", "Not A Name", "Namespace:"},
		"Name":          {"name", "Not A Name", "Name:"},
		"Ticket":        {"ticket", "javascript:alert(1)", "Ticket: must be an address"},
		"Expression":    {"expression", "finding.nothing(", "expression"},
		"Justification": {"status", "NotAffected", "“Not affected” needs one"},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for field, value := range good {
				if field != tc.field {
					fields = append(fields, field, value)
				}
			}
			a := w.Post("/exceptions/new", "/exceptions", append(fields, tc.field, tc.value)...)
			if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body, tc.want) {
				t.Errorf("%q answers %d:\n%s", tc.value, a.Code, a.Body)
			}
			if tc.field != "reason" && !strings.Contains(a.Body, "Fixed by the release of February.") {
				t.Error("what was typed is gone")
			}
		})
	}
	w.Refuse = func(o client.Object) error {
		if _, ok := o.(*settingsv1alpha2.FindingException); !ok {
			return nil
		}
		status := apierrors.NewInvalid(settingsv1alpha2.SchemeGroupVersion.WithKind("FindingException").GroupKind(), "x", nil)
		status.ErrStatus.Details.Causes = []metav1.StatusCause{{Field: "spec.expiresAt", Message: "at most 90 days are allowed here"}}
		return status
	}
	var fields []string
	for field, value := range good {
		fields = append(fields, field, value)
	}
	a := w.Post("/exceptions/new", "/exceptions", fields...)
	if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body, "spec.expiresAt: at most 90 days are allowed here") {
		t.Errorf("what the API server refuses answers %d:\n%s", a.Code, a.Body)
	}
	w.Refuse = nil
	w.Denied = []string{"create findingexceptions team-blue"}
	has(t, w.Get("/exceptions/new?namespace=team-blue"), "You may not create findingexceptions.settings.scanyard.io in team-blue.")
	a = w.Post("/exceptions/new", "/exceptions", fields...)
	if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body, "cannot create findingexceptions") {
		t.Errorf("making one without the right answers %d", a.Code)
	}
}

func TestExceptionsOfTheCluster(t *testing.T) {
	w := consoletest.Full(t).Enter()
	made := w.Post("/exceptions/new", "/exceptions", "cluster", "yes", "namespaces", "team-*", "status", "NotAffected", "justification", "vulnerable_code_not_present",
		"references", "CVE-2024-3094", "reason", "The library is built without it.", "name", "xz")
	if made.Path != "/clusterexceptions/xz" {
		t.Fatalf("it leads to %s:\n%s", made.Path, made.Body)
	}
	has(t, made, "all of the cluster", "vulnerable_code_not_present", "team-*")
	has(t, w.Get("/exceptions"), "xz", "all of the cluster")
	has(t, w.Get("/findings/fp-Outdated-OpenSSL?ns=team-blue&scan=nmap-shop"), `href="/clusterexceptions/xz"`)
	w.Post(made.Path, made.Path+"/end")
	has(t, w.Get(made.Path), "Ended")
}

func TestCrossSiteFormsAreRefused(t *testing.T) {
	w := consoletest.Full(t).Enter()
	response, err := w.Browser.PostForm(w.URL+"/exceptions", url.Values{"namespace": {"team-blue"}, "do": {"make"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a form without the token answers %d", response.StatusCode)
	}
}
