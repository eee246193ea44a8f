// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// thin is how many lines a chart may have beyond the library.
const thin = 40

// TestChartsAreThin counts the lines of all templates of a chart, notes included.
func TestChartsAreThin(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join(charts, "*", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, manifest := range manifests {
		raw, err := os.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw, []byte("file://../scanyard-lib")) {
			continue
		}
		counted++
		lines := 0
		templates := filepath.Join(filepath.Dir(manifest), "templates")
		err = filepath.WalkDir(templates, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			lines += bytes.Count(text, []byte("\n"))
			return err
		})
		if err != nil || lines == 0 || lines > thin {
			t.Errorf("%s: %d lines, want 1 to %d (%v)", templates, lines, thin, err)
		}
	}
	if counted < len(scanners) {
		t.Errorf("%d charts use the library, want the 19 scanners and the hooks", counted)
	}
}

// values returns the default values of a chart as path to value, down to what is not a
// map, and security contexts whole.
func values(t *testing.T, chart string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(charts, chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatalf("%s: %v", chart, err)
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 && !strings.HasSuffix(strings.ToLower(path), "securitycontext") {
			for key, value := range m {
				walk(strings.TrimPrefix(path+"."+key, "."), value)
			}
			return
		}
		out[path] = fmt.Sprint(v)
	}
	walk("", all)
	return out
}

// shared are the values of every scanner chart and their defaults; "*" is particular to
// the chart.
var shared = map[string]string{
	"clusterWide": "false", "imagePullSecrets": "[]", "cascadingRules.enabled": "false",
	"parser.enabled": "true", "parser.image.repository": "docker.io/scanyard/parser", "parser.image.tag": "<nil>", "parser.image.pullPolicy": "IfNotPresent",
	"parser.scanAccess":              "<nil>",
	"parser.ttlSecondsAfterFinished": "<nil>", "parser.env": "[]", "parser.scopeLimiterAliases": "map[]", "parser.nodeSelector": "map[]",
	"parser.affinity": "map[]", "parser.tolerations": "[]", "parser.resources": "map[]",
	"scanner.image.repository": "*", "scanner.image.tag": "<nil>", "scanner.image.pullPolicy": "IfNotPresent", "scanner.nameAppend": "<nil>",
	"scanner.ttlSecondsAfterFinished": "<nil>", "scanner.activeDeadlineSeconds": "<nil>", "scanner.backoffLimit": "*", "scanner.suspend": "false",
	"scanner.phases":    "<nil>",
	"scanner.resources": "map[]", "scanner.env": "[]", "scanner.envFrom": "[]", "scanner.extraVolumes": "[]", "scanner.extraVolumeMounts": "[]",
	"scanner.extraContainers": "[]", "scanner.nodeSelector": "map[]", "scanner.affinity": "map[]", "scanner.tolerations": "[]",
	"scanner.podSecurityContext": "*", "scanner.securityContext": "*",
}

// particular are the values that one chart has beyond the shared ones.
var particular = map[string]map[string]string{
	"ncrack":    {"encryptPasswords.existingSecret": "<nil>", "encryptPasswords.key": "public.key"},
	"subfinder": {"includeTargetDomain": "false"},
	"nuclei": {
		"nucleiTemplateCache.enabled":    "<nil>", // true in a namespace
		"nucleiTemplateCache.accessMode": "[ReadWriteOnce ReadOnlyMany]", "nucleiTemplateCache.size": "1Gi", "nucleiTemplateCache.storageClassName": "",
		"nucleiTemplateCache.schedule": "0 */1 * * *", "nucleiTemplateCache.successfulJobsHistoryLimit": "3",
		"nucleiTemplateCache.failedJobsHistoryLimit": "10", "nucleiTemplateCache.concurrencyPolicy": "Replace",
	},
	"trivy": {
		"k8sScanScope": "namespace", "createAutoDiscoveryScanType": "false", "serviceAccountNamespaces": "[]",
		"trivyDatabaseCache.enabled": "true", "trivyDatabaseCache.replicas": "1", "trivyDatabaseCache.cacheStorageLimit": "1Gi",
		"trivyDatabaseCache.resources.requests.cpu": "*", "trivyDatabaseCache.resources.requests.memory": "*", "trivyDatabaseCache.resources.limits.memory": "*",
		"trivyDatabaseCache.podSecurityContext": "*", "trivyDatabaseCache.securityContext": "*",
		"trivyDatabaseCache.nodeSelector": "map[]", "trivyDatabaseCache.affinity": "map[]", "trivyDatabaseCache.tolerations": "[]",
	},
}

// TestValuesKeepTheContract: the names and defaults that values files of users rely on,
// no more and no fewer, and each of them in the README.
func TestValuesKeepTheContract(t *testing.T) {
	for chart := range scanners {
		if chart == "nuclei-no-cache" {
			continue
		}
		want := maps.Clone(shared)
		maps.Copy(want, particular[chart])
		got := values(t, chart)
		readme, err := os.ReadFile(filepath.Join(charts, chart, "README.md"))
		if err != nil {
			t.Error(err)
		}
		for path, w := range want {
			g, ok := got[path]
			if !ok || (w != "*" && g != w) {
				t.Errorf("%s: %s is %q, want %q", chart, path, g, w)
			}
			if row := "| " + strings.SplitAfter(path, ".resources")[0]; !bytes.Contains(readme, []byte(row)) {
				t.Errorf("%s: README.md has no row for %s", chart, path)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(got)) {
			if _, ok := want[path]; !ok {
				t.Errorf("%s: %s is not in the contract", chart, path)
			}
		}
	}
}
