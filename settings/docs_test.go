// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// example reads the first YAML block of a page.
func example(t *testing.T, page string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../docs/kinds/" + page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindStringSubmatch(string(raw))
	if block == nil || !strings.Contains(block[1], "settings.scanyard.io") {
		t.Fatalf("%s does not begin with an example", page)
	}
	if err := yaml.UnmarshalStrict([]byte(block[1]), into); err != nil {
		t.Fatal(err)
	}
}

// TestExamplesOfTheDocumentationAreAccepted, the one under the other.
func TestExamplesOfTheDocumentationAreAccepted(t *testing.T) {
	cluster, own := &settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}
	example(t, "clusterscansetting.md", cluster)
	example(t, "scansetting.md", own)
	for _, e := range ValidateClusterScanSetting(cluster) {
		t.Error(e)
	}
	for _, e := range ValidateScanSetting(cluster, own) {
		t.Error(e)
	}
}
