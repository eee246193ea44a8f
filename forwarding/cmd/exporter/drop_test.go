// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"
)

// TestDropTenant has the command remove what is here of a tenant, through the program that runs and without one.
func TestDropTenant(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	drop := func(want string, more ...string) {
		t.Helper()
		out, err := command(append([]string{"queue", "drop", "--dir", p.dir, "--tenant", "shop"}, more...)...).Output()
		if err != nil || string(out) != want {
			t.Errorf("%v: got %q, %v; want %q", more, out, err, want)
		}
	}
	r := p.start(t, "--tenant", "shop")
	send(t, p, 7)
	drop("7 records and 0 dead letters of tenant shop would be dropped: say --yes to drop them\n")
	r.waitFor(t, "all is there still", func(v queueView) bool { return v.Records == 7 })
	drop("7 records and 0 dead letters of tenant shop were dropped\n", "--yes")
	r.waitFor(t, "nothing is left", isEmpty)
	send(t, p, 3)
	r.kill(t)
	drop("3 records and 0 dead letters of tenant shop were dropped\n", "--yes")
	drop("0 records and 0 dead letters of tenant shop were dropped\n", "--yes")
	if err := command("queue", "drop", "--dir", p.dir, "--tenant", "nobody", "--yes").Run(); err == nil {
		t.Error("a tenant that is not here was dropped")
	}
}
