// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"testing"
	"time"
)

var epoch = time.Unix(1_800_000_000, 0)

// add puts n Scans of a namespace into the queue of a sink.
func add(t *Turns, sink, namespace string, n int) {
	for i := range n {
		t.Add(Task{sink, namespace, fmt.Sprintf("%s-%05d", namespace, i)}, epoch.Add(time.Duration(i)*time.Second))
	}
}

// next is the task that comes, or nothing.
func next(t *Turns) string {
	task, ok := t.Next()
	if !ok {
		return ""
	}
	return task.Sink + "/" + task.UID
}

func TestOneNamespaceDelaysAnotherByAQuantum(t *testing.T) {
	turns := New(Bounds{Workers: 1, Quantum: 100})
	add(turns, "hub", "flood", 10_000)
	flooding := Task{"hub", "flood", "flood-00000"}
	if got, _ := turns.Next(); got != flooding {
		t.Fatalf("got %v", got)
	}
	if turns.Spent(flooding, 60) || turns.Spent(flooding, 70) {
		t.Error("nobody else waits")
	}
	add(turns, "hub", "small", 1)
	if !turns.Spent(flooding, 1) {
		t.Error("the quantum is used up, and another namespace waits")
	}
	turns.Done(flooding)
	turns.Add(flooding, epoch)
	if got := next(turns); got != "hub/small-00000" {
		t.Errorf("got %s", got)
	}
	turns.Done(Task{"hub", "small", "small-00000"})
	if got := next(turns); got != "hub/flood-00000" {
		t.Errorf("got %s", got)
	}
}

// TestBytesAreShared sends Scans of very different sizes: both namespaces get the same number of bytes.
func TestBytesAreShared(t *testing.T) {
	turns := New(Bounds{Workers: 1, Quantum: 1000})
	add(turns, "hub", "large", 5000)
	add(turns, "hub", "small", 5000)
	sent := map[string]int64{}
	for range 4000 {
		task, ok := turns.Next()
		if !ok {
			t.Fatal("nobody waits")
		}
		size := map[string]int64{"large": 700, "small": 70}[task.Namespace]
		turns.Spent(task, size)
		sent[task.Namespace] += size
		turns.Done(task)
	}
	if ratio := float64(sent["large"]) / float64(sent["small"]); ratio < 0.9 || ratio > 1.6 {
		t.Errorf("bytes %v", sent)
	}
}

// TestNamespaceJoinsRound does not wait until the bytes of the others are used up, and gets no second quantum by
// leaving and coming back.
func TestNamespaceJoinsRound(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		do     func(*Turns)
		want   []string
	}{
		"AfterAFailure": {
			reason: "the flood has bytes of a round that began before the sink failed",
			do: func(t *Turns) {
				add(t, "hub", "flood", 5)
				begun, _ := t.Next()
				t.Limit("hub", 0)
				t.Done(begun)
				t.Add(begun, epoch)
				add(t, "hub", "small", 1)
				t.Limit("hub", 4)
			},
			want: []string{"hub/flood-00000", "hub/small-00000", "hub/flood-00001"},
		},
		"HasSpentItsBytes": {
			reason: "what a namespace has used up stays used up while others of the round have bytes",
			do: func(t *Turns) {
				add(t, "hub", "flood", 5)
				add(t, "hub", "small", 1)
				spend(t, 0)
				spend(t, 1000)
				add(t, "hub", "small", 1)
			},
			want: []string{"hub/flood-00001", "hub/flood-00002", "hub/flood-00003"},
		},
		"NextRound": {
			reason: "a round begins when all bytes are used up",
			do: func(t *Turns) {
				add(t, "hub", "flood", 5)
				add(t, "hub", "small", 1)
				spend(t, 1000)
				spend(t, 1000)
				add(t, "hub", "small", 1)
			},
			want: []string{"hub/flood-00001", "hub/small-00000", "hub/flood-00002"},
		},
		"NobodyElse": {
			reason: "a round ends when nobody waits",
			do: func(t *Turns) {
				add(t, "hub", "small", 1)
				spend(t, 1000)
				add(t, "hub", "flood", 5)
				add(t, "hub", "small", 1)
			},
			want: []string{"hub/flood-00000", "hub/small-00000", "hub/flood-00001"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			turns := New(Bounds{Workers: 1, Quantum: 1000})
			test.do(turns)
			for i, want := range test.want {
				task, _ := turns.Next()
				if got := task.Sink + "/" + task.UID; got != want {
					t.Errorf("turn %d: got %s, want %s: %s", i, got, want, test.reason)
				}
				turns.Spent(task, 10)
				turns.Done(task)
			}
		})
	}
}

// spend takes the next task, and ends it after a number of bytes.
func spend(t *Turns, bytes int64) {
	task, _ := t.Next()
	t.Spent(task, bytes)
	t.Done(task)
}

func TestSinksShareWorkers(t *testing.T) {
	turns := New(Bounds{Workers: 4, PerSink: 3, Quantum: 100})
	add(turns, "slow", "a", 100)
	for _, want := range []string{"slow/a-00000", "slow/a-00001", "slow/a-00002", ""} {
		if got := next(turns); got != want {
			t.Errorf("got %q, want %q: a sink has three streams at most", got, want)
		}
	}
	add(turns, "fast", "a", 100)
	if got := next(turns); got != "fast/a-00000" {
		t.Errorf("got %s", got)
	}
	if got := next(turns); got != "" {
		t.Errorf("got %s beyond four workers", got)
	}
	if !turns.Spent(Task{"slow", "a", "a-00001"}, 100) {
		t.Error("a sink with three streams makes room for one with one")
	}
	turns.Done(Task{"slow", "a", "a-00001"})
	if got := next(turns); got != "fast/a-00001" {
		t.Errorf("got %s", got)
	}
	if turns.Spent(Task{"slow", "a", "a-00002"}, 1000) || turns.Spent(Task{"fast", "a", "a-00000"}, 1000) {
		t.Error("two and two are fair")
	}
}

func TestSinkThatIsNotHealthyHoldsNoWorker(t *testing.T) {
	turns := New(Bounds{Workers: 2})
	add(turns, "dead", "a", 3)
	turns.Limit("dead", 0)
	add(turns, "hub", "b", 1)
	if got := next(turns); got != "hub/b-00000" {
		t.Errorf("got %s", got)
	}
	if got := next(turns); got != "" {
		t.Errorf("got %s", got)
	}
	turns.Limit("dead", 1)
	if got, then := next(turns), next(turns); got != "dead/a-00000" || then != "" {
		t.Errorf("got %s and %s: a sink that is tried has one stream", got, then)
	}
	turns.Limit("dead", 100)
	turns.Done(Task{"hub", "b", "b-00000"})
	if got := next(turns); got != "dead/a-00001" || turns.Waiting("dead") != 3 {
		t.Errorf("got %s, %d wait", got, turns.Waiting("dead"))
	}
	turns.Forget("dead")
	if turns.Waiting("dead") != 2 || turns.Knows(Task{"dead", "a", "a-00002"}) {
		t.Errorf("%d are left of a sink that was removed", turns.Waiting("dead"))
	}
	turns.Done(Task{"dead", "a", "a-00000"})
	turns.Done(Task{"dead", "a", "a-00001"})
	if turns.Waiting("dead") != 0 || turns.Knows(Task{"dead", "a", "a-00000"}) {
		t.Error("streams that have ended are forgotten")
	}
}

func TestTasksAreAddedOnce(t *testing.T) {
	turns := New(Bounds{})
	task := Task{"hub", "a", "x"}
	for range 3 {
		turns.Add(task, epoch)
	}
	earlier := Task{"hub", "a", "y"}
	turns.Add(earlier, epoch.Add(-time.Second))
	if got := next(turns); got != "hub/y" {
		t.Errorf("got %s: what ended first comes first", got)
	}
	turns.Remove(earlier)
	if !turns.Knows(earlier) {
		t.Error("a task that runs is known until it is done")
	}
	turns.Remove(task)
	if got := next(turns); got != "" || turns.Knows(task) {
		t.Errorf("got %s", got)
	}
	turns.Done(task)
	turns.Done(earlier)
	turns.Done(earlier)
	if turns.Waiting("hub") != 0 || turns.Waiting("none") != 0 {
		t.Error("nobody waits")
	}
}
