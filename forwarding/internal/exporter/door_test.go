// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"testing"
	"time"
)

func TestWarningsOfAQuota(t *testing.T) {
	w := warnings{}
	start := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		used  int64
		want  bool
		why   string
	}{
		{0, 900, false, "90 % are not more than 90 %"},
		{0, 901, true, "it is more for the first time"},
		{59 * time.Second, 950, false, "the log told less than a minute ago"},
		{60 * time.Second, 950, true, "a minute is over"},
		{61 * time.Second, 100, false, "there is room"},
		{62 * time.Second, 990, true, "it is more again"},
	} {
		if got := w.due(start.Add(step.after), "a", step.used, 1000); got != step.want {
			t.Errorf("step %d: got %v: %s", i, got, step.why)
		}
	}
	if !w.due(start.Add(63*time.Second), "b", 1000, 1000) {
		t.Error("each quota has its own warning")
	}
}
