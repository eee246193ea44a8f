// SPDX-License-Identifier: Apache-2.0

// Package distribution is the client of container registries: catalogue, tags, manifests, configs.
//
//	request ─► limits: wait | Paused ─► Authorization ─► egress: dial ─► answer
//	              ▲                        ▲                                │
//	              │ 429, 503, broken       │ 401: token or next credential  │ 30x: the next hop, without credentials elsewhere
//	              └────────────────────────┴────────────────────────────────┘
//
// What it decides:
//
//   - The transport is our own and not that of go-containerregistry, whose rules differ: there any realm gets the password, redirects
//     are followed without a look at where they lead, answers of 429 are tried again unasked, ETags and cursors of lists are not
//     given, and names must have two characters. Its registry is the far end of the tests.
//   - The scope of a token is ours, never what a challenge asks for: a registry must not have tokens made that it has no need of.
//   - Messages hold a status and the error codes of the OCI Distribution Specification. What else a registry writes is not repeated.
//   - A list that ends with a full page and without a Link is asked for once more behind its last name: the specification allows
//     registries to page by last alone.
package distribution
