// SPDX-License-Identifier: Apache-2.0

// Package certificate keeps what the reports API server serves with: an authority of its own and a certificate signed by
// it, both in one Secret that all replicas share. No replica leads: whoever sees first that a step is due writes the
// Secret at the resourceVersion that was read, the others take what has been written.
//
//	                 nothing usable                  2/3 of the lease              2/3 of the authority's life
//	                      │                                │                                   │
//	                    begin                            renew                             announce
//	                      │                                │                                   │
//	ca.crt:              [A]                              [A]                                [B A]
//	tls.crt signed by:    A                                A                                   A ── an hour ──► sign: B ── an hour ──► retire: [B]
//
// Clients have to trust an authority before the authority signs, and for as long as some replica shows what the
// authority has signed. An hour is 120 rounds of the keeper of the APIServices. The key of an authority that is replaced is dropped at once.
package certificate
