// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/findings/policyreport"
)

// What the life of a finding is kept by: the same target again may fix it.
func TestTargets(t *testing.T) {
	scan := func(more ...string) *metav1.ObjectMeta {
		m := &metav1.ObjectMeta{Labels: map[string]string{policyreport.LabelScan: "nightly-1", policyreport.LabelScanType: "nmap"}}
		for i := 0; i < len(more); i += 2 {
			m.Labels[more[i]] = more[i+1]
		}
		return m
	}
	described := scan()
	described.Annotations = map[string]string{policyreport.AnnotationTarget: "nmap/0123456789ab"}
	for name, tc := range map[string]struct {
		meta                   *metav1.ObjectMeta
		target, source, reason string
	}{
		"Label":    {scan(executionv1.LabelTarget, "shop", policyreport.LabelSchedule, "nightly"), "shop", "scanyard/nmap", "people say what is the same; scan types do not fix each other's findings"},
		"Schedule": {scan(policyreport.LabelSchedule, "nightly"), "nightly", "", "runs of a schedule look at the same"},
		"Means":    {described, "nmap/0123456789ab", "", "Scans that do the same look at the same"},
		"Scan":     {scan(), "nightly-1", "", "a hook of before did not say more"},
		"Others":   {&metav1.ObjectMeta{Labels: map[string]string{executionv1.LabelTarget: "shop"}}, "", "", "reports of others have no runs"},
	} {
		if set := newSet(tc.meta); set.Target != tc.target || set.Source != tc.source {
			t.Errorf("%s: %q of %q, want %q of %q: %s", name, set.Target, set.Source, tc.target, tc.source, tc.reason)
		}
	}
	report := &reportsv1.VulnerabilityReport{Spec: reportsv1.VulnerabilityReportSpec{ImageRef: reportsv1.ImageRef{
		Registry: &reportsv1.RegistryRef{Host: "registry.example"}, Repository: "shop/api", Tag: "1.2", Digest: "sha256:00", Platform: "linux/amd64",
	}}}
	if got, want := SetOfFindings(report).Target, "registry.example/shop/api:1.2 linux/amd64"; got != want {
		t.Errorf("of an image: %q, want %q", got, want)
	}
}

func TestResourceOfResults(t *testing.T) {
	scan := map[string]string{policyreport.LabelScan: "shop-1"}
	for name, tc := range map[string]struct {
		labels   map[string]string
		resource string
		location string
		want     string
		reason   string
	}{
		"Named":       {scan, "web", "https://shop.example/login", "web", "what a result names counts"},
		"Address":     {scan, "", "https://shop.example:8443/login", "shop.example", "the host is what is looked at, whatever the page"},
		"Port":        {scan, "", "tcp://10.0.0.7:22", "10.0.0.7", "scans of networks have a host in each location"},
		"IPv6":        {scan, "", "tcp://[fd00::7]:22", "fd00::7", "with the brackets of an address only"},
		"File":        {map[string]string{policyreport.LabelScan: "shop-1", executionv1.LabelTarget: "shop"}, "", "src/main.go", "shop", "a file is not a target"},
		"Broken":      {scan, "", "http://[", "shop-1", "a location that is none says nothing"},
		"Schedule":    {map[string]string{policyreport.LabelScan: "shop-1", policyreport.LabelSchedule: "shop"}, "", "", "shop", "runs of a schedule look at the same"},
		"Scan":        {scan, "", "", "shop-1", "there is nothing else"},
		"OfOthers":    {nil, "", "https://shop.example/", "", "reports of others mean what they say"},
		"UnnamedKind": {nil, "", "", "", "and what they do not"},
	} {
		t.Run(name, func(t *testing.T) {
			result := wgpolicyv1.PolicyReportResult{Source: "scanyard/nmap", Policy: new("p"), Rule: "r", Properties: map[string]string{propertyLocation: tc.location}}
			if tc.resource != "" {
				result.Resources = []corev1.ObjectReference{{Kind: "Pod", Name: tc.resource}}
			}
			set := setOfResults(&metav1.ObjectMeta{Namespace: "team-a", Labels: tc.labels}, "", []wgpolicyv1.PolicyReportResult{result})
			row := &set.Rows[0]
			if row.ResourceName != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, row.ResourceName, tc.want)
			}
			result.Properties = nil
			unlocated := setOfResults(&metav1.ObjectMeta{Namespace: "team-a"}, "", []wgpolicyv1.PolicyReportResult{result})
			if row.Fingerprint() != unlocated.Rows[0].Fingerprint() {
				t.Error("the finding is known by another fingerprint, and would be new")
			}
		})
	}
}
