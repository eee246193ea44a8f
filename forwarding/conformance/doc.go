// SPDX-License-Identifier: Apache-2.0

// Package conformance asks a receiver of scanyard.forwarding.v1, by its address alone, whether it does what the protocol wants.
//
//	hello, negotiate    versions, limits, features
//	order, acks         numbers of batches, cumulative acks, what is acknowledged is there
//	duplicates          the same record again, on any stream; the same id in another tenant is not a duplicate
//	conflict            the same id with another body: the first one wins
//	closing, gaps       verdicts and what is missing
//	unknown, limits     fields and bodies of later versions; sizes; damaged records
//
// Each case uses streams of its own, so that a suite may be run again and beside real senders. What the cases leave at the receiver has
// cluster IDs that begin with "conformance-".
package conformance
