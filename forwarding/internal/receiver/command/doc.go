// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of the receiver.
//
//	receiver run ──► gRPC: ForwardingService     receiver streams, records, verify: the same store, while no receiver runs
//	             └─► HTTP: records, streams, counters, health, metrics
//
// What it decides:
//
//   - Stdout carries one line with the addresses where it is asked for, and nothing else; logs go to stderr.
//   - Plain text is served on this machine only, unless somebody says that it is meant.
//   - Exit codes: 1 failed, 2 a flag is wrong, 3 the store is in use, 4 a newer program wrote it, 5 it is damaged.
package command
