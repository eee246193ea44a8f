// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

const registryCRDs = "../../../charts/registry/crds"

// TestRegistryKinds holds names and columns of the kinds of registry.scanyard.io, which scripts and people know.
func TestRegistryKinds(t *testing.T) {
	// Columns with * are shown by -o wide.
	jobs := []string{"Registry", "State", "Done", "Total", "Failed", "*Trigger", "*Started", "*Duration", "*Warnings", "Age"}
	for file, want := range map[string]struct {
		names   names
		columns []string
	}{
		"registries": {
			names{"Registry", "RegistryList", "registries", "registry", []string{"reg"}, []string{"scanyard"}},
			[]string{"URL", "Images", "Critical", "High", "Ready", "Reason", "Last Discovery", "Last Scan", "*Failed", "*Next Discovery", "*Next Scan", "*Database", "Age"},
		},
		"discoveryjobs": {names{"DiscoveryJob", "DiscoveryJobList", "discoveryjobs", "discoveryjob", []string{"discjob"}, []string{"scanyard"}}, jobs},
		"scanjobs":      {names{"ScanJob", "ScanJobList", "scanjobs", "scanjob", []string{"regscan"}, []string{"scanyard"}}, jobs},
	} {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(registryCRDs, "registry.scanyard.io_"+file+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) >= maxCRD {
				t.Errorf("%d bytes; client-side apply takes less than %d", len(raw), maxCRD)
			}
			var c crd
			if err := yaml.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			equal(t, "names", want.names, c.Spec.Names)
			equal(t, "scope", "Namespaced", c.Spec.Scope)
			equal(t, "versions", 1, len(c.Spec.Versions))
			v := c.Spec.Versions[0]
			equal(t, "version", version{Name: "v1alpha1", Served: true, Storage: true}, version{Name: v.Name, Served: v.Served, Storage: v.Storage})
			if _, ok := v.Subresources["status"]; !ok {
				t.Error("no status subresource: whoever may write the spec could write the status")
			}
			var columns []string
			for _, column := range v.Columns {
				if column.Priority > 0 {
					column.Name = "*" + column.Name
				}
				columns = append(columns, column.Name)
			}
			equal(t, "columns", want.columns, columns)
		})
	}
}
