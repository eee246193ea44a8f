// SPDX-License-Identifier: Apache-2.0

// Package exporter is the program exporter: flags, wiring, its HTTP door, and the commands over its queue.
//
//	socket, gRPC, audit webhook ──► queue ──► a worker for each sink
//	                                  ▲
//	exporter queue … ──► admin.sock of the running exporter, or the directory itself
//
// Settings come by flags and by a file, whose fields stand for flags; flags go before the file. When the file changes, its sinks are
// applied while the program runs. A file that is wrong changes nothing, and is told with its line.
package exporter
