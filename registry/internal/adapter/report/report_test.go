// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
)

func TestTheScoreIsTheHighestOfTheNewestVersion(t *testing.T) {
	list := []protocol.CVSS{
		{Source: "redhat", Version: "3.0", Score: 8.1},
		{Source: "nvd", Version: "3.1", Score: 7.5},
		{Source: "nvd", Version: "2.0", Score: 10},
		{Source: "ghsa", Version: "4.0"},
	}
	if score := report.Scores(list); score != 8.1 {
		t.Errorf("got %v: version 4.0 has no score, and 2.0 is older", score)
	}
	if list[0].Source != "ghsa" || list[1].Version != "2.0" {
		t.Errorf("the order is source, version: %v", list)
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	if got := report.Cut("aäb", 2); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := report.Cut("a\xffb", 100); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}

func TestReferencesAreBounded(t *testing.T) {
	links := []string{"", "https://a", "https://a", strings.Repeat("x", report.MaxReference+1)}
	if diff := cmp.Diff([]string{"https://a"}, report.References(links)); diff != "" {
		t.Error(diff)
	}
}

func TestKeysAreInOrder(t *testing.T) {
	keys := report.Keys{}
	keys.Add("pkg:b", "npm|b", "npm|a", "npm|b")
	keys.Add("pkg:a")
	keys.Add("", "npm|nobody")
	if diff := cmp.Diff([]protocol.PackageKeys{{PURL: "pkg:a"}, {PURL: "pkg:b", Keys: []string{"npm|a", "npm|b"}}}, keys.List()); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentsAreCanonical(t *testing.T) {
	got, err := report.Canonical([]byte(` {"b": 10000000000000000001, "a": "<x>"}`))
	if err != nil || string(got) != `{"a":"<x>","b":10000000000000000001}`+"\n" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := report.Canonical([]byte("{")); err == nil {
		t.Error("a document that is not JSON was taken")
	}
}
