// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/resultimport"
)

// TestImportParts: what the ConfigMaps hold, where the Scan mounts it, and what becomes of it.
func TestImportParts(t *testing.T) {
	noise := make([]byte, resultimport.MaxPart+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // it does not fail
	for name, tc := range map[string]struct {
		reason string
		result []byte
		parts  int
	}{
		"One": {"most results", []byte(`{"version": "2.1.0", "runs": []}`), 1},
		"Two": {"what one ConfigMap cannot hold", noise, 2},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.sarif")
			if err := os.WriteFile(file, tc.result, 0o600); err != nil {
				t.Fatal(err)
			}
			o := &importOptions{resultType: "sarif"}
			o.session, _ = newSession("")
			manifest, parts, err := o.read(file)
			if err != nil {
				t.Fatal(err)
			}
			scan, err := o.scan(file, len(parts))
			if err != nil {
				t.Fatal(err)
			}
			scan.Namespace = "team"
			brought, err := partMaps(scan, manifest, parts)
			if err != nil || len(brought) != tc.parts || len(scan.Spec.Volumes) != tc.parts {
				t.Fatalf("%s: %d ConfigMaps, %d volumes, %v", tc.reason, len(brought), len(scan.Spec.Volumes), err)
			}
			if scan.Spec.ScanType != "import-sarif" || !cmp.Equal(scan.Spec.Parameters, []string{"report.sarif"}) {
				t.Errorf("the Scan is of type %q with %q: runs of a file must be one series", scan.Spec.ScanType, scan.Spec.Parameters)
			}
			var stream, out bytes.Buffer
			for i, m := range brought {
				if mount := scan.Spec.VolumeMounts[i]; scan.Spec.Volumes[i].ConfigMap.Name != m.Name || mount.MountPath != resultimport.PartDir(i) || mount.Name != scan.Spec.Volumes[i].Name {
					t.Errorf("part %d: ConfigMap %s, volume %+v, mount %+v", i, m.Name, scan.Spec.Volumes[i], mount)
				}
				if m.Namespace != "team" || m.Immutable == nil || !*m.Immutable || m.Labels[resultimport.LabelImport]+"-" != strings.TrimRight(m.Name, "01") {
					t.Errorf("part %d: %+v", i, m.ObjectMeta)
				}
				stream.Write(m.BinaryData[resultimport.PartKey])
			}
			var said resultimport.Manifest
			if err := json.Unmarshal([]byte(brought[0].Data[resultimport.ManifestKey]), &said); err != nil {
				t.Fatal(err)
			}
			if err := said.Join(&out, &stream); err != nil || !bytes.Equal(out.Bytes(), tc.result) {
				t.Errorf("%s: %d bytes came back of %d: %v", tc.reason, out.Len(), len(tc.result), err)
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	o := &importOptions{resultType: "trivy"}
	o.session, _ = newSession("")
	for name, tc := range map[string]struct {
		err   error
		words string
	}{
		"NoChart":  {o.unknownResultType(nil, " --namespace team"), "helm install import <charts>/import --namespace team"},
		"NearName": {o.unknownResultType([]string{"sarif", "trivy-json"}, ""), "did you mean trivy-json? (importable: sarif, trivy-json)"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.words) {
			t.Errorf("%s: error %v, want %q", name, tc.err, tc.words)
		}
	}
	if _, _, err := o.read(filepath.Join(t.TempDir(), "none.json")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if _, _, err := o.read("-"); err == nil || err.Error() != "it is empty" {
		t.Error(err)
	}
}
