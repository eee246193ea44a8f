// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

func TestResourceOfResults(t *testing.T) {
	scan := map[string]string{labelScan: "shop-1"}
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
		"File":        {map[string]string{labelScan: "shop-1", executionv1.LabelTarget: "shop"}, "", "src/main.go", "shop", "a file is no target"},
		"Broken":      {scan, "", "http://[", "shop-1", "a location that is none says nothing"},
		"Schedule":    {map[string]string{labelScan: "shop-1", labelSchedule: "shop"}, "", "", "shop", "runs of a schedule look at the same"},
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
