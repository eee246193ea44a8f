// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

const tolerate = "spec: {template: {spec: {tolerations: [{key: scans, operator: Exists}]}}}"

// BenchmarkPatch is what every Job pays for one merge patch.
func BenchmarkPatch(b *testing.B) {
	e, job := effective(tolerate), scannerJob(b)
	for b.Loop() {
		if _, err := e.Patch(job, JobAttributes{Phase: settingsv1alpha2.PhaseScanner}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate is what admission pays for one patch for all phases.
func BenchmarkValidate(b *testing.B) {
	c := clusterSetting(clusterSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: tolerate}}})
	for b.Loop() {
		if errs := ValidateClusterScanSetting(c); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
