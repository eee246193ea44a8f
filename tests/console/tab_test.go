// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	"github.com/scanyard/scanyard/tests/browser"
)

// open opens a tab of the browser, which is closed with the test.
func open(t *testing.T) *browser.Tab {
	t.Helper()
	return openAt(t, []string{w.url + "/"})
}

// openAt opens a tab that may ask these addresses, and may complain of some things.
func openAt(t *testing.T, own []string, expected ...string) *browser.Tab {
	t.Helper()
	return browser.Open(t, w.ctx, browser.Options{Base: w.url, Own: own, Expected: expected, Unread: "svg, :disabled, .out", Refusal: "Sign in"})
}
