// SPDX-License-Identifier: Apache-2.0

package severity_test

import (
	"math"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/severity"
)

func TestOfScore(t *testing.T) {
	for score, want := range map[float64]string{
		10: finding.High, 9: finding.High, 7: finding.High, 6.9: finding.Medium, 4: finding.Medium, 3.9: finding.Low,
		0.1: finding.Low, 0: finding.Informational, -1: "", 10.1: "", math.Inf(1): "",
	} {
		if got, ok := severity.OfScore(score); got != want || ok != (want != "") {
			t.Errorf("%v: want %q, got %q, %v", score, want, got, ok)
		}
	}
	if _, ok := severity.OfScore(math.NaN()); ok {
		t.Error("NaN is taken for a score")
	}
}

func TestScore(t *testing.T) {
	tests := map[string]struct {
		in   any
		want float64
		ok   bool
	}{
		"Number": {7.5, 7.5, true}, "Text": {"7.5", 7.5, true}, "Spaces": {" 9 ", 9, true}, "Zero": {"0.0", 0, true},
		"TooMuch": {11.0, 0, false}, "Word": {"high", 0, false}, "Empty": {"", 0, false}, "NaN": {"NaN", 0, false},
		"Null": {nil, 0, false}, "List": {[]any{7.5}, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := severity.Score(tt.in); got != tt.want || ok != tt.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
}

func TestOfWord(t *testing.T) {
	for word, want := range map[string]string{
		"CRITICAL": finding.High, "High": finding.High, "Moderate": finding.Medium, "low ": finding.Low,
		"Negligible": finding.Informational, "Unknown": finding.Informational, "": "", "bad": "",
	} {
		if got, ok := severity.OfWord(word); got != want || ok != (want != "") {
			t.Errorf("%q: want %q, got %q, %v", word, want, got, ok)
		}
	}
	for id, want := range map[string]string{"MAL-2024-1": finding.High, "CVE-2024-1": "", "": ""} {
		if got, ok := severity.OfID(id); got != want || ok != (want != "") {
			t.Errorf("%q: want %q, got %q, %v", id, want, got, ok)
		}
	}
	if got := len(severity.All()); got != 4 {
		t.Errorf("%d severities", got)
	}
}

func TestOfVector(t *testing.T) {
	tests := map[string]struct {
		vector string
		want   float64
		ok     bool
	}{
		"V4":       {"CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N", 9.3, true},
		"V31":      {"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", 9.8, true},
		"V30":      {"CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H", 7.5, true},
		"V2":       {"AV:N/AC:L/Au:N/C:P/I:P/A:P", 7.5, true},
		"Empty":    {"", 0, false},
		"Word":     {"high", 0, false},
		"Cut":      {"CVSS:3.1/AV:N/AC:L", 0, false},
		"Unknown":  {"CVSS:5.0/AV:N", 0, false},
		"Endless":  {strings.Repeat("CVSS:3.1/", 1000), 0, false},
		"NotOfIt4": {"CVSS:4.0/AV:N", 0, false},
		"NotOfIt3": {"CVSS:3.0/AV:N", 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := severity.OfVector(tt.vector); got != tt.want || ok != tt.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
}
