// SPDX-License-Identifier: Apache-2.0

// Package egress decides where a worker may connect to: one dialer for registries, token realms, redirects and databases.
//
//	host ──Host──► allowed names ─► resolve ─► class of each address ─► dial that very address
//	redirect ──Redirect──► at most 5, never from https to http ─► resolve ─► …
//
// What it decides:
//
//   - The dialer resolves a name itself and dials the address that was decided on: a name that changes its answer gains nothing.
//   - An IPv6 address that carries an IPv4 address has the class of that address too: translators send packets there.
//   - allowCIDRs opens loopback, link-local, private and the like, but not what denyCIDRs or the cluster itself keep, and the
//     metadata services of clouds only by a prefix of that one address: 100.64.0.0/10 must not open one by accident.
//   - The message names an address only for a host that the tenant wrote. Where a redirect leads is not told, since the answer would
//     be a way to ask the cluster's name server.
package egress
