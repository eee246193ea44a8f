// SPDX-License-Identifier: Apache-2.0

// Package pki makes the throw-away certificates of one local cluster: a CA,
// the servers' certificate, the admin's client certificate and the key that
// signs ServiceAccount tokens. They are made once per data directory and kept,
// so that a cluster which comes up again knows its old clients.
package pki
