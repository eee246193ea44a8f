// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the forwarder does with one Scan, and how a sink is doing. It is pure: time and chance come in
// with what was observed.
//
//	Scan, settings, sinks, what is known in memory ──► Decide ──► who is due, entries and condition to write, Events
//
//	sink: Unknown ──► Healthy ──failure──► Failing ──probe answered──► Trial ──acknowledgement, or nobody waits──► Healthy
//	                                          ▲                         │
//	                                          └─────────failure─────────┘
//
// An entry of status.forwarding counts only with its seal: pods of a Scan may write its status. Whatever somebody removes or
// forges is sent again, and far ends know duplicates.
package plan
