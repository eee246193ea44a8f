// SPDX-License-Identifier: Apache-2.0

// Package server is the reports API server on k8s.io/apiserver.
//
//	listener ─► TLS ─► limits, authentication, authorisation ─► handlers of k8s.io/apiserver
//	                                                              ├─► registry of a resource ─► sqlstorage ─► database
//	                                                              └─► virtual resources: created, answered, not stored
//
// What it decides:
//
//   - Resources that share rows share one storage; each has a registry with the names of its group.
//   - Tables, metadata, and lists of kinds with a document, are read without payloads.
//   - The process is ready while the database answers. It is alive in any case, and tells what it serves from memory.
//   - A request is refused before its body is read where the bodies in work would take too much memory.
//   - When the process is asked to stop, it is no longer ready, ends all watches at once, and finishes what is in work.
package server
