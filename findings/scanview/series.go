// SPDX-License-Identifier: Apache-2.0

package scanview

import (
	"slices"
	"strings"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Series is what the runs of the same scan have in common: the schedule, or else type and parameters.
func Series(s *executionv1.Scan) string {
	if owner := executionv1.ScheduleOf(s); owner != nil {
		return s.Namespace + "/schedule/" + owner.Name
	}
	return s.Namespace + "/" + s.Spec.ScanType + "/" + strings.Join(s.Spec.Parameters, "\x00")
}

// Latest are the newest runs with findings, one of each series, in the order given: the newest first.
func Latest(newestFirst []*executionv1.Scan) []*executionv1.Scan {
	seen := map[string]bool{}
	var out []*executionv1.Scan
	for _, s := range newestFirst {
		if s.Status.State != executionv1.ScanStateDone || seen[Series(s)] {
			continue
		}
		seen[Series(s)] = true
		out = append(out, s)
	}
	return out
}

// Target is what a Scan looks at, as far as it says so.
func Target(s *executionv1.Scan) string {
	if target := s.Labels[executionv1.LabelTarget]; target != "" {
		return target
	}
	for _, p := range slices.Backward(s.Spec.Parameters) {
		if p != "" && !strings.HasPrefix(p, "-") {
			return p
		}
	}
	return s.Name
}
