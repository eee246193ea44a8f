// SPDX-License-Identifier: Apache-2.0

// Package client is how a program in Go hands decisions to an exporter: by the socket of one beside it, or by gRPC.
//
//	Log, Send ──► window in memory ──► unix:// or grpc(s):// ──► exporter
//	                    ▲                                           │
//	                    └────────────── acknowledged ◄──────────────┘
//
// What it decides:
//
//   - Log never blocks: what does not fit into the window is dropped and counted. Send waits until the exporter has the records on disk.
//   - No URL means no exporter: New gives a nil Client, whose methods do nothing and cost nothing.
//   - What is not acknowledged is sent again on the next connection, under the same session and with the same decisionId.
//   - By gRPC a client asks first what the far end has of its session. Plain text goes to this machine only.
//
// Programs that may not import gRPC use apis/decision, whose Dial is the unix:// half.
package client
