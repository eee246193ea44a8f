// SPDX-License-Identifier: Apache-2.0

package crdcontract

import "testing"

// settingsGroup is the group of our own kinds, which no client of secureCodeBox knows.
const settingsGroup = "settings.scanyard.io"

// TestSettingsKindsCanGrow holds what a later version with a conversion relies on: one stored
// version, a status of its own, and no field that objects of today need not have.
func TestSettingsKindsCanGrow(t *testing.T) {
	crds := readCRDs(t)
	for kind, scope := range map[string]string{"ScanSetting": "Namespaced", "ClusterScanSetting": "Cluster"} {
		t.Run(kind, func(t *testing.T) {
			c := crds[kind]
			equal(t, "group", settingsGroup, c.Spec.Group)
			equal(t, "scope", scope, c.Spec.Scope)
			equal(t, "versions", 1, len(c.Spec.Versions))
			v := c.Spec.Versions[0]
			equal(t, "stored", true, v.Storage)
			if _, ok := v.Subresources["status"]; !ok {
				t.Error("has no status subresource: whoever may write the spec could write what is in force")
			}
			equal(t, "required at the root", []string(nil), v.Schema.Root.Required)
			spec := v.Schema.Root.Properties["spec"]
			equal(t, "required in spec", []string(nil), spec.Required)
			for name, f := range spec.Properties {
				if f.Default != nil {
					t.Errorf("spec.%s has a default: absent has to mean inherited", name)
				}
			}
			equal(t, "fields of status.inForce", len(spec.Properties), len(v.Schema.Root.Properties["status"].Properties["inForce"].Properties))
			if c.size > maxCRD {
				t.Errorf("%d bytes, more than client-side apply can store", c.size)
			}
		})
	}
}
