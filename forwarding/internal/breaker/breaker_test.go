// SPDX-License-Identifier: Apache-2.0

package breaker

import "testing"

func TestBreaker(t *testing.T) {
	t.Run("TwentyInARow", func(t *testing.T) {
		var b Breaker
		b.Accepted(1000)
		for i := range uint64(19) {
			if b.Refused(i) {
				t.Fatalf("open after %d", i+1)
			}
		}
		if !b.Refused(19) || !b.Open || len(b.TakeRun()) != 20 {
			t.Error("20 in a row did not open it")
		}
		b.Accepted(1)
		if b.Open {
			t.Error("one accepted closes it")
		}
	})
	t.Run("HalfOfTwoHundred", func(t *testing.T) {
		var b Breaker
		opened := 0
		for i := range uint64(300) {
			if i%3 == 0 {
				b.Accepted(1)
			} else if b.Refused(i) {
				opened = int(i) + 1
				break
			}
		}
		if opened < 199 || opened > 202 {
			t.Errorf("opened at %d", opened)
		}
	})
	t.Run("NineteenAndOne", func(t *testing.T) {
		var b Breaker
		for range 5 {
			for i := range uint64(19) {
				if b.Refused(i) {
					t.Fatal("opened")
				}
			}
			b.Accepted(100)
		}
	})
}
