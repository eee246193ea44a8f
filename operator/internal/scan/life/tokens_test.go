// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestDefect48AScanCannotMountTheLurkersTokens: they are volumes of the scanner's pod, and
// whoever writes a Scan says what its containers mount.
func TestDefect48AScanCannotMountTheLurkersTokens(t *testing.T) {
	mount := func(volume string) []corev1.VolumeMount {
		return []corev1.VolumeMount{{Name: "ok", MountPath: "/ok"}, {Name: volume, MountPath: "/x"}}
	}
	cases := map[string]struct {
		change func(*executionv1.ScanSpec)
		field  string
	}{
		"Scanner":       {func(s *executionv1.ScanSpec) { s.VolumeMounts = mount("lurker-token") }, "spec.volumeMounts[1]"},
		"ScannerUpload": {func(s *executionv1.ScanSpec) { s.VolumeMounts = mount("lurker-upload-token") }, "spec.volumeMounts[1]"},
		"InitContainer": {func(s *executionv1.ScanSpec) {
			s.InitContainers = []corev1.Container{{Name: "a"}, {Name: "b", VolumeMounts: mount("lurker-token")}}
		}, "spec.initContainers[1].volumeMounts[1]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(testobjects.Scan("s", func(s *executionv1.Scan) { tc.change(&s.Spec) })))
			if d.Step != "InvalidSpec" || len(d.Create) > 0 || !strings.Contains(d.Status.ErrorDescription, tc.field) || !strings.Contains(d.Status.ErrorDescription, "remove the mount") {
				t.Errorf("step %s launches %d Jobs and says %q, want it refused with %s and a remedy", d.Step, len(d.Create), d.Status.ErrorDescription, tc.field)
			}
		})
	}
}
