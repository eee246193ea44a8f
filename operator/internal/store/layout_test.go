// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"testing"
)

func TestNewLayout(t *testing.T) {
	cases := map[string]struct {
		reason   string
		template string
		want     string
	}{
		"Default":        {"the contract's own template", DefaultURLTemplate, ""},
		"Namespaced":     {"a folder per namespace", "{{ .Scan.Namespace }}/{{ .Scan.UID }}/{{ .Filename }}", ""},
		"NoUID":          {"two Scans of one name would share a key", "{{ .Scan.Namespace }}/{{ .Scan.Name }}/{{ .Filename }}", "must contain {{ .Scan.UID }}"},
		"NoFilename":     {"raw result and findings would share a key", "scan-{{ .Scan.UID }}", "must contain {{ .Filename }}"},
		"Labels":         {"labels change while a Scan runs", "{{ .Scan.Labels.team }}/{{ .Scan.UID }}/{{ .Filename }}", "UID, Name, Namespace and CreationTimestamp"},
		"Spec":           {"the spec changes while a Scan runs", "{{ .Scan.Spec.ScanType }}/{{ .Scan.UID }}/{{ .Filename }}", "UID, Name, Namespace and CreationTimestamp"},
		"NotATemplate":   {"a typing error", "{{ .Scan.UID ", "unclosed action"},
		"AbsoluteKey":    {"keys have no leading slash", "/{{ .Scan.UID }}/{{ .Filename }}", "slash"},
		"UIDOfSubstring": {"a part of the UID is not unique", "{{ slice .Scan.UID 9 13 }}/{{ .Filename }}", "must contain {{ .Scan.UID }}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewLayout(tc.template)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.reason, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestPrefix(t *testing.T) {
	o := Owner{UID: "u-1", Name: "n", Namespace: "ns"}
	cases := map[string]struct {
		reason, template, want string
	}{
		"Folder":         {"a folder of its own", DefaultURLTemplate, "scan-u-1/"},
		"FilenameFirst":  {"keys share no prefix", "{{ .Filename }}/{{ .Scan.UID }}", ""},
		"NoSlash":        {"scan-u-1 is a prefix of scan-u-11 too", "scan-{{ .Scan.UID }}{{ .Filename }}", ""},
		"FilenameMiddle": {"what follows the file name does not matter", "{{ .Scan.UID }}/{{ .Filename }}.json", "u-1/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l, err := NewLayout(tc.template)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := l.Prefix(o)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("%s: Prefix = %q, %t, want %q", tc.reason, got, ok, tc.want)
			}
		})
	}
}

func TestKeyRefusesInvalidFileName(t *testing.T) {
	o := Owner{UID: "u-1", Name: "n", Namespace: "ns"}
	cases := map[string]struct {
		reason, name string
		ok           bool
	}{
		"Plain":         {"what ScanTypes name", "nmap-results.xml", true},
		"Dots":          {"dots inside of a name lead nowhere", "..a..b..", true},
		"Space":         {"odd, and harmless", "a result.json", true},
		"Unicode":       {"a name in any script", "ergebnis-ü.json", true},
		"Empty":         {"there is no name", "", false},
		"Dot":           {"the folder itself", ".", false},
		"DotDot":        {"the folder above", "..", false},
		"OtherScan":     {"the findings of another Scan, where the store resolves dots", "../scan-u-2/findings.json", false},
		"Absolute":      {"a key of its own", "/scan-u-2/findings.json", false},
		"Below":         {"a folder is a path", "a/b", false},
		"Backslash":     {"which some stores take for a slash", `..\scan-u-2\findings.json`, false},
		"NUL":           {"ends a name in many programs", "a\x00b", false},
		"NewLine":       {"a control character", "a\nb", false},
		"C1":            {"a control character, too", "a\u009bb", false},
		"InvalidUTF8":   {"keys are UTF-8", "a\xffb", false},
		"TrailingSlash": {"a folder", "a/", false},
	}
	for _, template := range []string{DefaultURLTemplate, "{{ .Filename }}-{{ .Scan.UID }}"} {
		l, err := NewLayout(template)
		if err != nil {
			t.Fatal(err)
		}
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				key, err := l.Key(o, tc.name)
				if (err == nil) != tc.ok {
					t.Errorf("%s: Key(%q) = %q, %v", tc.reason, tc.name, key, err)
				}
			})
		}
	}
}
