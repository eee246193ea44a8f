// SPDX-License-Identifier: Apache-2.0

// Package gitrepo makes a small git repository with a planted credential in its
// history, and serves it over HTTP for "git clone". The credential is drawn at
// random for each run: it opens nothing, and is nowhere in this repository.
//
// StartAPI serves the list of an organisation's repositories as the REST API of a
// GitHub Enterprise server documents it, without repositories behind it.
package gitrepo
