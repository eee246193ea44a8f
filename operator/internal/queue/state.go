// SPDX-License-Identifier: Apache-2.0

package queue

// state is where a Scan stands.
type state int

const (
	// held is a Scan that is not to start, such as one that is suspended. It comes back when a watch shows that it may.
	held state = iota
	// waiting is one that waits for its turn.
	waiting
	// parked is one whose turn came and that could not begin. It waits again when it asks.
	parked
	// reserved is one that may begin: it holds a slot.
	reserved
	// starting is one whose scanner Job may be there already.
	starting
	// running is one that is seen to run, by its state or by its Jobs.
	running
	// delegated is one whose Jobs Kueue holds back. It takes no slot here.
	delegated
)

// holds says whether a Scan holds a slot.
func (s state) holds() bool { return s == reserved || s == starting || s == running }

// event is something that happens to a Scan.
type event int

const (
	// seenFresh, seenHeld and seenRunning say what the watches show of it.
	seenFresh event = iota
	seenHeld
	seenRunning
	// seenDelegated says that Kueue holds its Jobs back, undelegated that it does so no longer.
	seenDelegated
	undelegated
	// granted says that its turn has come.
	granted
	// begins says that its scanner Job is about to be created.
	begins
	// asks says that it has what it needs to begin.
	asks
	// refused says that its scanner Job was certainly not created.
	refused
	// unready says that a pass has ended in which it did not begin.
	unready
)

// transitions is all that can happen to a Scan in the queue. What is not listed changes nothing.
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
	// The watch is behind: whatever it shows but a Job, the Job may be there.
	starting: {
		seenRunning: running, seenDelegated: delegated,
		refused: parked,
	},
	running: {
		seenFresh: waiting, seenHeld: held, seenDelegated: delegated,
	},
	delegated: {
		undelegated: held, // until the watches have their say
	},
}

// on is the state after an event.
func (s state) on(e event) state {
	if next, ok := transitions[s][e]; ok {
		return next
	}
	return s
}
