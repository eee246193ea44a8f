// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	openreportsv1alpha1 "github.com/scanyard/scanyard/apis/openreports/v1alpha1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// kind is one that the commands know, by the words that a user may type for it.
type kind struct {
	gvk      schema.GroupVersionKind
	resource string
	// words beside the resource's name.
	words   []string
	cluster bool
	// title begins the list of names, as "Policy reports".
	title string
}

var kinds = []kind{
	{wgpolicyv1alpha2.SchemeGroupVersion.WithKind("PolicyReport"), "policyreports", []string{"polr", "policyreport"}, false, "Policy reports"},
	{
		wgpolicyv1alpha2.SchemeGroupVersion.WithKind("ClusterPolicyReport"), "clusterpolicyreports",
		[]string{"cpolr", "clusterpolicyreport"},
		true, "Cluster policy reports",
	},
	{openreportsv1alpha1.SchemeGroupVersion.WithKind("Report"), "reports", []string{"reps", "report"}, false, "Reports"},
	{openreportsv1alpha1.SchemeGroupVersion.WithKind("ClusterReport"), "clusterreports", []string{"creps", "clusterreport"}, true, "Cluster reports"},
	{reportsv1alpha1.SchemeGroupVersion.WithKind("Image"), "images", []string{"img", "image"}, false, "Images"},
	{reportsv1alpha1.SchemeGroupVersion.WithKind("SBOM"), "sboms", []string{"sbom"}, false, "SBOMs"},
	{
		reportsv1alpha1.SchemeGroupVersion.WithKind("VulnerabilityReport"), "vulnerabilityreports",
		[]string{"vulnr", "vulnerabilityreport"},
		false, "Vulnerability reports",
	},
}

// kindOf finds the kind that a word means, in whatever case.
func kindOf(word string) (kind, error) {
	for _, k := range kinds {
		if low := strings.ToLower(word); low == k.resource || slices.Contains(k.words, low) {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("%q is not a kind of report: choose one of %s", word, strings.Join(words(), ", "))
}

// words is the shortest word of each kind.
func words() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.words[0])
	}
	return out
}

// isReport says whether an object may be written by these commands.
func isReport(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.gvk.Group == gvk.Group && k.gvk.Kind == gvk.Kind })
}
