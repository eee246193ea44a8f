// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	// largestScan is how large a spec may be, in bytes; a larger one fails the Scan. The CRD bounds
	// the fields that grow in normal use, and this bounds all the others together.
	largestScan = 256 << 10
	// LargestLabels is how large the labels of a Scan may be, in bytes. Limits select Scans by
	// labels, so that the operator must keep all of them in memory.
	LargestLabels = 8 << 10
)

// SpecBytes returns about the size of a spec, in bytes.
func SpecBytes(p *executionv1.ScanSpec) int {
	n := len(p.ScanType) + MapBytes(p.NodeSelector) + p.Resources.Size()
	for _, text := range p.Parameters {
		n += len(text) + 1
	}
	for i := range p.Env {
		n += p.Env[i].Size()
	}
	for i := range p.Volumes {
		n += p.Volumes[i].Size()
	}
	for i := range p.VolumeMounts {
		n += p.VolumeMounts[i].Size()
	}
	for i := range p.InitContainers {
		n += p.InitContainers[i].Size()
	}
	for i := range p.Tolerations {
		n += p.Tolerations[i].Size()
	}
	if p.Affinity != nil {
		n += p.Affinity.Size()
	}
	if p.HookSelector != nil {
		n += p.HookSelector.Size()
	}
	return n + cascadeBytes(p.Cascades)
}

func cascadeBytes(c *executionv1.CascadeSpec) int {
	if c == nil {
		return 0
	}
	n := MapBytes(c.MatchLabels)
	for i := range c.MatchExpressions {
		n += c.MatchExpressions[i].Size()
	}
	if c.ScopeLimiter == nil {
		return n
	}
	for _, list := range [][]executionv1.ScopeLimiterRequirement{c.ScopeLimiter.AnyOf, c.ScopeLimiter.AllOf, c.ScopeLimiter.NoneOf} {
		for _, r := range list {
			n += len(r.Key) + len(r.Operator)
			for _, v := range r.Values {
				n += len(v) + 1
			}
		}
	}
	return n
}

// MapBytes returns the size of labels or annotations, in bytes.
func MapBytes(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}

// tooLarge returns why a Scan is too large; "" if it is not. The API server bounds the size of
// annotations.
func tooLarge(s *executionv1.Scan) string {
	if n := SpecBytes(&s.Spec); n > largestScan {
		return fmt.Sprintf(
			"spec has %d KiB, more than the %d KiB that a Scan may have: put large inputs into a ConfigMap or Secret and mount it",
			n>>10, largestScan>>10,
		)
	}
	if n := MapBytes(s.Labels); n > LargestLabels {
		return fmt.Sprintf(
			"metadata.labels have %d KiB, more than the %d KiB that those of a Scan may have: use annotations for what nothing selects by",
			n>>10, LargestLabels>>10,
		)
	}
	return ""
}
