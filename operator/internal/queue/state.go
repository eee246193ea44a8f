// SPDX-License-Identifier: Apache-2.0

package queue

// state is where a Scan is in the queue.
type state int

const (
	// held is a Scan that must not start, such as a suspended one. It waits as soon as a watch shows that it may start.
	held state = iota
	// waiting is one that waits for its turn.
	waiting
	// parked is one that got a slot and could not begin. It waits again when it asks.
	parked
	// reserved is one that may begin: it holds a slot.
	reserved
	// starting is one whose scanner Job may be there already.
	starting
	// running is one whose state or Jobs show that it runs.
	running
	// delegated is one whose Jobs Kueue holds back. It needs no slot of this queue.
	delegated
)

// holds says whether a Scan holds a slot.
func (s state) holds() bool { return s == reserved || s == starting || s == running }

// event is an event in the life of a Scan that the queue needs.
type event int

const (
	// seenFresh, seenHeld and seenRunning say what the watches show of the Scan.
	seenFresh event = iota
	seenHeld
	seenRunning
	// seenDelegated says that Kueue holds the Scan's Jobs back, undelegated that Kueue no longer does.
	seenDelegated
	undelegated
	// granted says that the Scan got a slot.
	granted
	// begins says that the scanner Job is about to be created.
	begins
	// asks says that the Scan has all it needs to begin.
	asks
	// refused says that the scanner Job was certainly not created.
	refused
	// unready says that a pass has ended in which the Scan did not begin.
	unready
)

// transitions lists every change of state in the queue. Any other event changes nothing.
var transitions = map[state]map[event]state{
	held: {
		seenFresh: waiting, seenRunning: running, seenDelegated: delegated,
	},
	waiting: {
		seenHeld: held, seenRunning: running, seenDelegated: delegated,
		granted: reserved,
	},
	parked: {
		seenHeld: held, seenRunning: running, seenDelegated: delegated,
		asks: waiting,
	},
	reserved: {
		seenHeld: held, seenRunning: running, seenDelegated: delegated,
		begins: starting, unready: parked,
	},
	// The watch is behind: only a Job that it shows proves anything, since the Job may exist unseen.
	starting: {
		seenRunning: running, seenDelegated: delegated,
		refused: parked,
	},
	running: {
		seenFresh: waiting, seenHeld: held, seenDelegated: delegated,
	},
	delegated: {
		undelegated: held, // until the watches show the Scan
	},
}

// on returns the state after an event.
func (s state) on(e event) state {
	if next, ok := transitions[s][e]; ok {
		return next
	}
	return s
}
