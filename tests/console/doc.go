// SPDX-License-Identifier: Apache-2.0

// Package console tries the console as people use it: in a real Chromium, over a real API server and real storage.
//
//	API server, S3 ◄─ scanyard console ◄─ Chromium, a tab for each test
//
//	API server ◄─ console, with tokens of its own people, of an OIDC provider, and before a proxy
//
// The tests play the operator: they say what Scans do. There is one cluster, one console and one browser for all of them.
// CHROMIUM names a browser that is not in PATH; PICTURES is a folder for a picture of each page; DATABASE is what the reports API server stands on:
// sqlite, which is the default, or postgresql.
package console
