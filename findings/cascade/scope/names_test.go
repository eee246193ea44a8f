// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// load reads a table whose answers were given by the JavaScript libraries that the hook of this name uses elsewhere.
func load[Row any](t *testing.T, name string) []Row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestParseDomainAsParseDomainJS(t *testing.T) {
	type row struct {
		Text string  `json:"text"`
		Want *string `json:"want"`
	}
	for _, r := range load[row](t, "domains.json") {
		got, err := parseDomain(r.Text)
		switch {
		case r.Want == nil && err == nil:
			t.Errorf("%q is %v, want an error", r.Text, got)
		case r.Want != nil && err != nil:
			t.Errorf("%q: %v, want %s", r.Text, err, *r.Want)
		case r.Want != nil && strings.Join(got, ".") != *r.Want:
			t.Errorf("%q is %v, want %s", r.Text, got, *r.Want)
		}
	}
}

func TestNetworksAsIPAddressJS(t *testing.T) {
	type row struct{ Text, Scope, Want string }
	for _, r := range load[row](t, "networks.json") {
		scope, err := parseNetwork(r.Scope)
		if err != nil {
			t.Fatal(err)
		}
		got := "error"
		if network, err := parseNetwork(r.Text); err == nil {
			switch {
			case !sameFamily(network, scope):
				got = "family"
			case within(network, scope):
				got = "in"
			default:
				got = "out"
			}
		}
		if got != r.Want {
			t.Errorf("%q in %s: %s, want %s", r.Text, r.Scope, got, r.Want)
		}
	}
}
