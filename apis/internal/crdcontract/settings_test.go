// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"maps"
	"slices"
	"testing"
)

// settingsGroup is the group of our own kinds, which no client of secureCodeBox knows.
const settingsGroup = "settings.scanyard.io"

// TestSettingsKindsCanGrow holds what the conversion of versions relies on: one stored version, a status of its own, and
// no field that objects of today need not have.
func TestSettingsKindsCanGrow(t *testing.T) {
	crds := readCRDs(t)
	for kind, scope := range map[string]string{"ScanSetting": "Namespaced", "ClusterScanSetting": "Cluster"} {
		t.Run(kind, func(t *testing.T) {
			c := crds[kind]
			equal(t, "group", settingsGroup, c.Spec.Group)
			equal(t, "scope", scope, c.Spec.Scope)
			// Without conversion the API server installs strategy None, and applying the file again leaves what the operator wrote.
			equal(t, "conversion", map[string]any(nil), c.Spec.Conversion)
			equal(t, "versions", 2, len(c.Spec.Versions))
			for i, want := range []version{{Name: "v1alpha1", Served: true}, {Name: "v1alpha2", Served: true, Storage: true}} {
				v := c.Spec.Versions[i]
				equal(t, "version", want, version{Name: v.Name, Served: v.Served, Storage: v.Storage})
				checkSettingsVersion(t, v)
			}
			if c.size > maxCRD {
				t.Errorf("%d bytes, more than client-side apply can store", c.size)
			}
		})
	}
}

func checkSettingsVersion(t *testing.T, v version) {
	t.Helper()
	if _, ok := v.Subresources["status"]; !ok {
		t.Error(v.Name, "has no status subresource: whoever may write the spec could write what is in force")
	}
	equal(t, "required at the root", []string(nil), v.Schema.Root.Required)
	spec := v.Schema.Root.Properties["spec"]
	equal(t, "required in spec", []string(nil), spec.Required)
	for name, f := range spec.Properties {
		if f.Default != nil {
			t.Errorf("%s: spec.%s has a default: absent has to mean inherited", v.Name, name)
		}
	}
	equal(t, "fields of status.inForce are kept", true, v.Schema.Root.Properties["status"].Properties["inForce"].Preserve)
}

// TestSettingsOfBothVersionsAreAlike: the newer version has every field of the older one in its place, and what is new
// stands beside them, so that an old client's edit of an old field keeps the new ones.
func TestSettingsOfBothVersionsAreAlike(t *testing.T) {
	for _, kind := range []string{"ScanSetting", "ClusterScanSetting"} {
		versions := readCRDs(t)[kind].Spec.Versions
		old, now := versions[0].Schema.Root.Properties, versions[1].Schema.Root.Properties
		for part, added := range map[string][]string{"spec": {"exceptions", "registry", "resultForwarding", "targetScope"}, "status": {"sinks"}} {
			want := slices.Sorted(maps.Keys(old[part].Properties))
			var got []string
			for _, name := range slices.Sorted(maps.Keys(now[part].Properties)) {
				if !slices.Contains(added, name) {
					got = append(got, name)
				}
			}
			equal(t, kind+"."+part, want, got)
			for name, f := range old[part].Properties {
				if n := now[part].Properties[name]; part == "spec" {
					equal(t, kind+".spec."+name, f, n)
				}
			}
		}
	}
}
