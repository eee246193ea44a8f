// SPDX-License-Identifier: Apache-2.0

// Package preview is the command `registry-worker preview`: it tells from files what a filter takes, and what images a reference holds.
//
//	preview --filter FILE --tags FILE     which tags of a repository a filter takes, and why not the others
//	preview --manifests FILE              which images are behind a reference
//
// The command needs no network, cluster, configuration or environment. Discovery calls the functions that it calls.
package preview
