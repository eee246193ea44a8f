// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func figuresOf(cpu float64) *reportFigures {
	f := &reportFigures{cpu: map[work]float64{}, growth: cpu}
	for w := small; w <= watch; w++ {
		f.cpu[w] = cpu
	}
	return f
}

// A goal that SQLite misses by more than a seventh fails the run, whoever else misses it.
func TestGoalsOfReports(t *testing.T) {
	base := figuresOf(10)
	within, beyond := figuresOf(1), figuresOf(1)
	within.cpu[large], beyond.cpu[large] = 4, 4.1 // goal 0.35
	slow := figuresOf(100)
	var out bytes.Buffer
	if err := printReports(&out, []string{"", "sqlite", "postgresql"}, []*reportFigures{base, within, slow}); err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.Contains(got, "create 100 KB (330 results)") || !strings.Contains(got, "0.40") {
		t.Errorf("printed:\n%s", got)
	}
	err := printReports(io.Discard, []string{"", "sqlite"}, []*reportFigures{base, beyond})
	if err == nil || !strings.Contains(err.Error(), "create 100 KB (330 results) on sqlite: 0.41 of what CRDs need, goal 0.35") {
		t.Errorf("a goal that is missed: %v", err)
	}
	within.cpu[small] = 12.9 // goal 1
	if err := printReports(io.Discard, []string{"", "sqlite"}, []*reportFigures{base, within}); err != nil {
		t.Errorf("a miss that is accepted: %v", err)
	}
	within.cpu[small] = 13.1
	err = printReports(io.Discard, []string{"", "sqlite"}, []*reportFigures{base, within})
	if err == nil || !strings.Contains(err.Error(), "create 1 KB (3 results) on sqlite: 1.31 of what CRDs need, goal 1.00, accepted 1.30") {
		t.Errorf("more than is accepted: %v", err)
	}
	within.cpu[small], within.peak = 1, 500
	if err := printReports(io.Discard, []string{"", "sqlite"}, []*reportFigures{base, within}); err == nil || !strings.Contains(err.Error(), "500.00, goal 400.00") {
		t.Errorf("too much memory: %v", err)
	}
}

// The end of the first events is seen wherever the answer is cut.
func TestMarker(t *testing.T) {
	const text = `{"type":"BOOKMARK","k8s.io/initial-events-end":"true"}`
	for cut := range len(text) {
		m := &marker{text: []byte("k8s.io/initial-events-end")}
		_, first := m.Write([]byte(text[:cut]))
		var second error
		if first == nil {
			_, second = m.Write([]byte(text[cut:]))
		}
		if !errors.Is(errors.Join(first, second), errSynced) {
			t.Errorf("cut at %d: it is not seen", cut)
		}
	}
}
