// SPDX-License-Identifier: Apache-2.0

package vexdoc_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/vexdoc"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

const openVEX = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://vendor.example/vex-1","author":"Vendor","timestamp":"2026-01-01T00:00:00Z","version":1,"statements":[
{"vulnerability":{"name":"CVE-2021-23337","aliases":["GHSA-35jh-r3h4-6jhm"]},"products":[{"@id":"pkg:npm/lodash@4.17.20"}],"status":"not_affected",
 "justification":"vulnerable_code_not_in_execute_path","impact_statement":"template() is not\n called\u0000 by \u001b[31mthe shop"},
{"vulnerability":{"name":"CVE-2024-1"},"products":[{"@id":"pkg:oci/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef?repository_url=r.example/web",
 "subcomponents":[{"@id":"pkg:deb/debian/libxml2@2.9"}]}],"status":"fixed"},
{"vulnerability":{"name":"CVE-2024-2"},"products":[{"@id":"pkg:npm/a@1"},{"@id":"https://vendor.example/product"}],"status":"under_investigation"},
{"vulnerability":{"name":"CVE-2024-3"},"products":[{"@id":"pkg:npm/a@1"}],"status":"affected","action_statement":"update"},
{"vulnerability":{"name":"CVE-2024-4"},"products":[{"@id":"pkg:npm/a@1"}],"status":"odd"},
{"vulnerability":{"name":"CVE-2024-5"},"products":[{"@id":"pkg:npm/a@1"}],"status":"not_affected"},
{"vulnerability":{"name":"CVE-2024-6"},"status":"fixed"},
{"vulnerability":{"name":""},"products":[{"@id":"pkg:npm/a@1"}],"status":"fixed"},
{"vulnerability":{"name":"CVE-2024-7"},"products":[{"@id":"pkg:oci/web?tag=1.2"}],"status":"fixed"}]}`

func TestReadOpenVEX(t *testing.T) {
	got, problems, err := vexdoc.Read([]byte(openVEX))
	if err != nil {
		t.Fatal(err)
	}
	spec := func(status settingsv1alpha2.ExceptionStatus, reason string, entries ...settingsv1alpha2.ExceptionEntry) settingsv1alpha2.ExceptionSpec {
		return settingsv1alpha2.ExceptionSpec{Status: status, Reason: reason, Match: settingsv1alpha2.ExceptionMatch{AnyOf: entries}}
	}
	want := []settingsv1alpha2.ExceptionSpec{
		spec("NotAffected", "template() is not called by [31mthe shop", settingsv1alpha2.ExceptionEntry{
			References: []string{"CVE-2021-23337", "GHSA-35JH-R3H4-6JHM"}, Packages: []string{"pkg:npm/lodash@4.17.20"},
		}),
		spec("Mitigated", "VEX document says fixed.", settingsv1alpha2.ExceptionEntry{
			References: []string{"CVE-2024-1"}, Products: []string{sum}, Packages: []string{"pkg:deb/debian/libxml2@2.9"},
		}),
		spec("UnderInvestigation", "VEX document says under_investigation.", settingsv1alpha2.ExceptionEntry{
			References: []string{"CVE-2024-2"}, Packages: []string{"pkg:npm/a@1"},
		}),
	}
	want[0].Justification = "vulnerable_code_not_in_execute_path"
	specs := make([]settingsv1alpha2.ExceptionSpec, 0, len(got))
	names := map[string]bool{}
	for _, s := range got {
		specs, names[s.Name] = append(specs, s.Spec), true
		if !strings.HasPrefix(s.Name, "vex-") || len(s.Name) != 20 {
			t.Errorf("name %q", s.Name)
		}
	}
	if diff := cmp.Diff(want, specs); diff != "" || len(names) != len(want) {
		t.Errorf("names %v (-want +got):\n%s", names, diff)
	}
	texts := map[int]string{
		3: `product "https://vendor.example/product" is not a package URL`, 4: "affected makes no exception", 5: `status "odd" is not known`,
		6: `not_affected needs a justification of OpenVEX, not ""`, 7: "names no product: it would hold for everything", 8: "names no vulnerability",
		9: `product "pkg:oci/web?tag=1.2" has no digest: an image is meant by its digest`,
	}
	said := map[int]string{}
	for _, p := range problems {
		said[p.Number] += p.Text
	}
	if diff := cmp.Diff(texts, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	again, _, err := vexdoc.Read([]byte(openVEX))
	if err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("read otherwise the second time: %v", err)
	}
}

func TestReadCycloneDX(t *testing.T) {
	got, problems, err := vexdoc.Read([]byte(`{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,
"components":[{"type":"library","name":"lodash","bom-ref":"c1","purl":"pkg:npm/lodash@4.17.20"}],"vulnerabilities":[
{"id":"CVE-2021-23337","references":[{"id":"GHSA-35jh","source":{"name":"GitHub"}}],"analysis":{"state":"not_affected","justification":"code_not_reachable","detail":"Nobody calls it here"},"affects":[{"ref":"c1"}]},
{"id":"CVE-2024-1","analysis":{"state":"false_positive","detail":"This is another library"},"affects":[{"ref":"urn:cdx:f08a6ccd-4dce-4759-bd84-c626675d60a7/1#pkg:npm/a@1"}]},
{"id":"CVE-2024-2","analysis":{"state":"exploitable"},"affects":[{"ref":"c1"}]},
{"id":"CVE-2024-3","affects":[{"ref":"c1"}]},
{"id":"CVE-2024-4","analysis":{"state":"resolved"},"affects":[{"ref":"c9"}]}]}`))
	if err != nil || len(got) != 2 || len(problems) != 3 {
		t.Fatalf("%d statements, problems %v, %v", len(got), problems, err)
	}
	if s := got[0].Spec; s.Status != "NotAffected" || s.Justification != "vulnerable_code_not_in_execute_path" || s.Reason != "Nobody calls it here" ||
		cmp.Diff(s.Match.AnyOf[0].References, []string{"CVE-2021-23337", "GHSA-35JH"}) != "" || s.Match.AnyOf[0].Packages[0] != "pkg:npm/lodash@4.17.20" {
		t.Errorf("got %+v", s)
	}
	if s := got[1].Spec; s.Status != "FalsePositive" || s.Match.AnyOf[0].Packages[0] != "pkg:npm/a@1" {
		t.Errorf("got %+v", s)
	}
}

// TestRoundTrip: what is written is read as the same, or not written at all.
func TestRoundTrip(t *testing.T) {
	end := metav1.NewTime(now.Add(time.Hour))
	statement := func(name string, status settingsv1alpha2.ExceptionStatus, entries ...settingsv1alpha2.ExceptionEntry) vexdoc.Statement {
		s := vexdoc.Statement{Name: name}
		s.Spec.Status, s.Spec.Reason, s.Spec.Match.AnyOf = status, "Because it is like that", entries
		if status == settingsv1alpha2.ExceptionNotAffected {
			s.Spec.Justification = "inline_mitigations_already_exist"
		}
		return s
	}
	lodash := settingsv1alpha2.ExceptionEntry{References: []string{"CVE-2021-23337", "GHSA-35JH"}, Packages: []string{"pkg:npm/lodash@4.17.20"}}
	image := settingsv1alpha2.ExceptionEntry{References: lodash.References, Products: []string{sum}}
	within := settingsv1alpha2.ExceptionEntry{References: lodash.References, Products: []string{sum}, Packages: []string{"pkg:deb/debian/a@1", "pkg:deb/debian/b@1"}}
	ending := statement("ending", "Mitigated", lodash)
	ending.Spec.ExpiresAt = &end
	ticket := statement("ticket", "Mitigated", lodash)
	ticket.Spec.Ticket = "https://tracker.example/1"
	for _, c := range []struct {
		s                  vexdoc.Statement
		openvex, cyclonedx bool
	}{
		{statement("not-affected", "NotAffected", lodash, image), true, true},
		{statement("fixed", "Mitigated", image), true, true},
		{statement("doubt", "UnderInvestigation", lodash), true, true},
		{ending, true, true},
		{statement("within", "Mitigated", within), true, false},
		{statement("wrong", "FalsePositive", lodash), false, true},
		{statement("risk", "Accepted", lodash), false, false},
		{statement("names", "Mitigated", settingsv1alpha2.ExceptionEntry{Names: []string{"a"}}), false, false},
		{statement("glob", "Mitigated", settingsv1alpha2.ExceptionEntry{References: lodash.References, Products: []string{"r.example/*"}}), false, false},
		{statement("more", "Mitigated", settingsv1alpha2.ExceptionEntry{References: lodash.References, Packages: lodash.Packages, Severities: []string{"LOW"}}), false, false},
		{ticket, false, false},
	} {
		for format, can := range map[string]bool{"openvex": c.openvex, "cyclonedx": c.cyclonedx} {
			t.Run(c.s.Name+"/"+format, func(t *testing.T) {
				if err := vexdoc.Check(&c.s, format); (err == nil) != can {
					t.Fatalf("can be written: %v, want %t", err, can)
				}
				if !can {
					return
				}
				var out bytes.Buffer
				if err := vexdoc.Write(&out, []vexdoc.Statement{c.s}, format, now); err != nil {
					t.Fatal(err)
				}
				got, problems, err := vexdoc.Read(out.Bytes())
				if err != nil || len(problems) > 0 {
					t.Fatalf("%v, %v:\n%s", err, problems, &out)
				}
				if diff := cmp.Diff([]vexdoc.Statement{c.s}, got); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, &out)
				}
			})
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", "null", `{"bomFormat":"SPDX"}`, `{"@context":"https://elsewhere.example"}`, "\x00", `{"@context":7}`} {
		if _, _, err := vexdoc.Read([]byte(text)); !errors.Is(err, vexdoc.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(openVEX))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := vexdoc.Read(data)
		for _, s := range all {
			if err != nil || s.Name == "" || len(s.Spec.Match.AnyOf) == 0 || len([]rune(s.Spec.Reason)) < 10 || len(s.Spec.Reason) > 2000 {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}
