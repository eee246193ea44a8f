// SPDX-License-Identifier: Apache-2.0

// Package aws decides which images that run in Amazon ECS are scanned.
//
//	EventBridge ──► SQS ──► event ──► state ──► plan ──► ScheduledScans
//	                ECS ──► listing ────┘          ▲            │
//	                        (where allowed)        └── ledger ◄─┘
//
// An event says which containers of a task run. The state is what is known of all of
// them: an image, and the containers that run it. An image that runs has one
// ScheduledScan for each scan configuration; when its last container ends, they go.
//
// # What survives a restart
//
// Each ScheduledScan says in annotations of which image it is and in which containers
// that runs, in twelve bytes each: a hash of the container's ARN, and the version of its
// task. A new process begins with what it reads there, so that the end of a container
// that began long ago is understood. The configuration is applied to what exists at
// every start: new scan configurations get their ScheduledScans, others lose theirs.
//
// # Order
//
// EventBridge delivers at least once, in any order. Each state of a task has a version;
// a container's state that is older than what is known of it changes nothing. That a
// container has ended is remembered for half a day, in memory.
//
// # What becomes of a message
//
//	understood, written          leaves the queue
//	another type of event        leaves the queue
//	API server away or refusing  is worked on, and hidden from others, until it succeeds
//	makes no sense               stays; SQS's redrive policy takes it out, or, where there
//	                             is none, this package after a number of tries
package aws
