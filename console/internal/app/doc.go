// SPDX-License-Identifier: Apache-2.0

// Package app is the console as a program of the cluster: its flags, its servers, its figures.
//
//	flags ─► Options, Validate ─► Run: pages on one port, /metrics /healthz /readyz on another
//
// What it decides:
//
//   - People sign in with a token, at an OIDC provider, or before a proxy, which excludes the others: one process must not
//     take headers and cookies for the same thing.
//   - The console has an address, and answers to no other name. Only on a loopback address may that be plain HTTP.
//   - Files with keys and credentials are named by flags, and read when the program starts; certificates again when they change.
package app
