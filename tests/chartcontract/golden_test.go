// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const charts = "../../charts"

var separator = regexp.MustCompile(`(?m)^---.*$`)

// objectsOf returns the objects of these kinds in a rendering. A field that the kind
// does not have is an error: the API server would drop it in silence.
func objectsOf[T any](t *testing.T, rendering string, kinds ...string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(golden, rendering+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for _, doc := range separator.Split(string(raw), -1) {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%s: %v", rendering, err)
		}
		for _, kind := range kinds {
			if head.Kind != kind {
				continue
			}
			var o T
			if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
				t.Fatalf("%s: %s: %v", rendering, kind, err)
			}
			all = append(all, o)
		}
	}
	return all
}

// one returns the only object of a kind in a rendering.
func one[T any](t *testing.T, rendering, kind string) T {
	t.Helper()
	all := objectsOf[T](t, rendering, kind)
	if len(all) != 1 {
		t.Fatalf("%s has %d objects of kind %s, want 1", rendering, len(all), kind)
	}
	return all[0]
}

// scanTypes returns the ScanTypes of a rendering, of either kind, by name.
func scanTypes(t *testing.T, rendering string) map[string]executionv1.ScanType {
	t.Helper()
	all := map[string]executionv1.ScanType{}
	for _, s := range objectsOf[executionv1.ScanType](t, rendering, "ScanType", "ClusterScanType") {
		if (s.Kind == "ScanType") != (s.Namespace != "") {
			t.Errorf("%s: %s %s is in namespace %q", rendering, s.Kind, s.Name, s.Namespace)
		}
		all[s.Name] = s
	}
	return all
}
