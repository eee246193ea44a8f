// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is a kind of reports.
type resource struct {
	plural, kind string
	namespaced   bool
}

// group is one that can be moved.
type group struct {
	// name and version are what the server serves.
	name, version string
	resources     []resource
	// readable are the versions of CRDs that can be read, the best first.
	readable []string
}

var groups = []group{
	{
		"wgpolicyk8s.io", "v1alpha2",
		[]resource{{"policyreports", "PolicyReport", true}, {"clusterpolicyreports", "ClusterPolicyReport", false}},
		[]string{"v1alpha2", "v1beta1", "v1alpha1"},
	},
	{
		"openreports.io", "v1alpha1",
		[]resource{{"reports", "Report", true}, {"clusterreports", "ClusterReport", false}},
		[]string{"v1alpha1"},
	},
}

// apiService is the name of the APIService that decides who answers for the group.
func (g *group) apiService() string { return g.version + "." + g.name }

// crd is the name of the CRD of a resource.
func (g *group) crd(r resource) string { return r.plural + "." + g.name }

// served is how the server serves a resource.
func (g *group) served(r resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: g.name, Version: g.version, Resource: r.plural}
}

// groupsOf finds groups by their names.
func groupsOf(names []string) ([]group, error) {
	var found []group
	for _, name := range names {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--groups: %q cannot be moved: choose from %s", name, strings.Join(groupNames(), ","))
		}
		if !slices.ContainsFunc(found, func(g group) bool { return g.name == name }) {
			found = append(found, groups[i])
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--groups names no group: choose from %s", strings.Join(groupNames(), ","))
	}
	return found, nil
}

func groupNames() []string {
	var names []string
	for i := range groups {
		names = append(names, groups[i].name)
	}
	return names
}

// readFrom is the version of a CRD that is read, the best of those that it serves; "" if there is none.
func (g *group) readFrom(versions []string) string {
	for _, version := range g.readable {
		if slices.Contains(versions, version) {
			return version
		}
	}
	return ""
}
