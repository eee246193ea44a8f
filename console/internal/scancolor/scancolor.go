// SPDX-License-Identifier: Apache-2.0

// Package scancolor decides the colour and the word in which pages show a Scan and its phases: the classes good, bad, run, wait
// and off of the style.
package scancolor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Of is the class of colour of a Scan's state.
func Of(s *executionv1.Scan) string {
	switch scanview.State(s) {
	case string(executionv1.ScanStateDone):
		if scanview.Reached(s).Status == metav1.ConditionFalse {
			return "wait"
		}
		return "good"
	case string(executionv1.ScanStateErrored):
		return "bad"
	case scanview.StateWaiting, scanview.StateQueued, scanview.StateSuspended:
		return "wait"
	case scanview.StateDeleting:
		return "off"
	}
	return "run"
}

var phases = map[scanview.Progress]struct{ class, word string }{
	scanview.Pending: {"off", "not yet"}, scanview.Waiting: {"wait", "waiting"}, scanview.Running: {"run", "running"},
	scanview.Done: {"good", "done"}, scanview.Failed: {"bad", "failed"}, scanview.Skipped: {"off", "never ran"},
}

// OfPhase is the class of colour of a phase, and a word for how far it is.
func OfPhase(p scanview.Phase) (class, word string) {
	shown := phases[p.Progress]
	return shown.class, shown.word
}
