// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func TestUnlike(t *testing.T) {
	scan := func(name, scanType string, parameters ...string) *executionv1.Scan {
		return &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: executionv1.ScanSpec{ScanType: scanType, Parameters: parameters}}
	}
	const doubt = ": what is called fixed may only not have been looked at"
	for name, c := range map[string]struct {
		before, after *executionv1.Scan
		want          string
	}{
		"Same":       {scan("a", "nmap", "-p", "80", "host"), scan("b", "nmap", "-p", "80", "host"), ""},
		"Parameters": {scan("a", "nmap", "-p", "1-1000", "host"), scan("b", "nmap", "-p", "80", "host"), `parameters differ: a has "-p 1-1000 host", b has "-p 80 host"` + doubt},
		"Type":       {scan("a", "nmap", "host"), scan("b", "zap", "host"), "types differ: a has nmap, b has zap" + doubt},
		"Hostile":    {scan("a", "nmap", "\x1b[31mhost\n"), scan("b", "nmap"), `parameters differ: a has "\x1b[31mhost\n", b has ""` + doubt},
	} {
		if got := unlike(c.before, c.after); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
