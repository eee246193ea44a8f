// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/tests/browser"
)

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
		b.Screen(look.theme, look.width)
		for _, p := range pages {
			where := fmt.Sprintf("%s, %s, %d pixels", p.name, look.theme, look.width)
			b.Visit(p.path)
			looksWell(b, where)
			b.Picture(fmt.Sprintf("%s-%d-%s", p.name, look.width, look.theme))
		}
	}
}

// looksWell tells what is wrong with the page that is shown.
func looksWell(b *browser.Tab, where string) {
	b.LooksWell(where)
	b.Named(where)
}
