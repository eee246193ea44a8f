// SPDX-License-Identifier: Apache-2.0

// Package forwardingv1 is the wire API scanyard.forwarding.v1: what a sender hands to a receiver, and what both compute alike.
//
//	record ──Digest──► 32 bytes ──AppendChain──► 32 bytes that stand for all records so far
//	stream, sequence ──EventID──► the same id whenever the same record is sent again
//
// The files *.pb.go are generated from apis/proto. The others hold what another language has to compute byte for byte:
// testdata/digests.json has examples of bodies, their canonical form and their digest.
package forwardingv1
