// SPDX-License-Identifier: Apache-2.0

// Package exporter is the program exporter: flags, wiring, its HTTP door, and the commands over its queue.
//
//	socket, gRPC, audit webhook ──► queue ──► a worker for each sink
//	                                  ▲
//	exporter queue … ──► admin.sock of the running exporter, or the directory itself
package exporter
