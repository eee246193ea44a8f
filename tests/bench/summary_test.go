// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummaryIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.json")
	f := figures{rate: 9.5, pods: 3, writes: 8.1, reads: 0.3, cpu: 20, apiCPU: 139}
	if err := f.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSummary(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Summary{ScansPerSecond: 9.5, Pods: 3, Writes: 8.1, GETs: 0.3, OperatorCPU: 20, APIServerCPU: 139}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	peer := Summary{ScansPerSecond: 4, Pods: 3, Writes: 12, OperatorCPU: 24, APIServerCPU: 190}
	for name, c := range map[string]struct {
		ours Summary
		want string
	}{
		"AllMet":   {Summary{ScansPerSecond: 8, Pods: 2.004, Writes: 6, GETs: 0.004, OperatorCPU: 12, APIServerCPU: 114}, "yes yes yes yes yes yes"},
		"NoneMet":  {Summary{ScansPerSecond: 7.9, Pods: 3, Writes: 8, GETs: 0.3, OperatorCPU: 20, APIServerCPU: 139}, "no no no no no no"},
		"OnlyPods": {Summary{ScansPerSecond: 4, Pods: 2, Writes: 6.1, GETs: 0.01, OperatorCPU: 12.5, APIServerCPU: 120}, "no no no yes no no"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			Compare(&out, &c.ours, &peer)
			var met []string
			for line := range strings.Lines(out.String()) {
				fields := strings.Fields(line)
				met = append(met, fields[len(fields)-1])
			}
			if got := strings.Join(met[1:], " "); got != c.want {
				t.Errorf("got %s, want %s:\n%s", got, c.want, out.String())
			}
		})
	}
}
