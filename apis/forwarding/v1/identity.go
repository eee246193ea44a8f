// SPDX-License-Identifier: Apache-2.0

package forwardingv1

import (
	"crypto/sha1" //nolint:gosec // UUIDv5 is defined over SHA-1; nothing secret depends on it
	"encoding/hex"
	"strconv"
)

// Version is the wire version that this package speaks.
const Version = "v1"

// Schema is the version of the bodies that this package knows. A receiver stores records of a later schema without checking their digest.
const Schema = 1

// Features of a sender or receiver. What the other side does not list is not used; none is required.
const (
	FeatureZstd        = "zstd"
	FeatureGzip        = "gzip"
	FeatureChain       = "chain-v1"
	FeatureStreamState = "streamstate-v1"
)

// ErrorDomain is the domain of a google.rpc.ErrorInfo of a receiver.
const ErrorDomain = "forwarding.scanyard.io"

// Reasons of a google.rpc.ErrorInfo of a receiver.
const (
	ErrorVersionNotSupported = "VERSION_NOT_SUPPORTED"
	ErrorConflict            = "CONFLICT"
)

// namespace is the namespace of event ids: 8f0c6f0e-5a3b-4e0e-9b57-1d6c2f4a7e31.
var namespace = [16]byte{0x8f, 0x0c, 0x6f, 0x0e, 0x5a, 0x3b, 0x4e, 0x0e, 0x9b, 0x57, 0x1d, 0x6c, 0x2f, 0x4a, 0x7e, 0x31}

// EventID is the id of the record of a stream: a UUIDv5 of CLUSTER/KIND/TENANT/UID/REVISION/SEQUENCE. The same Scan sent again gives the same ids.
// Decisions carry ids of their own.
func EventID(stream *StreamId, sequence uint64) string {
	var scratch [192]byte
	name := append(scratch[:0], namespace[:]...)
	name = append(name, stream.GetClusterId()...)
	name = append(name, '/')
	name = append(name, KindName(stream.GetKind())...)
	name = append(name, '/')
	name = append(name, stream.GetTenant()...)
	name = append(name, '/')
	name = append(name, stream.GetUid()...)
	name = append(name, '/')
	name = strconv.AppendUint(name, uint64(stream.GetRevision()), 10)
	name = append(name, '/')
	name = strconv.AppendUint(name, sequence, 10)
	sum := sha1.Sum(name) //nolint:gosec // UUIDv5 is defined over SHA-1
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], sum[:4])
	text[8] = '-'
	hex.Encode(text[9:13], sum[4:6])
	text[13] = '-'
	hex.Encode(text[14:18], sum[6:8])
	text[18] = '-'
	hex.Encode(text[19:23], sum[8:10])
	text[23] = '-'
	hex.Encode(text[24:], sum[10:16])
	return string(text[:])
}

// KindName is the name of a kind of streams in ids and in JSON.
func KindName(kind StreamKind) string {
	switch kind {
	case StreamKind_STREAM_KIND_SCAN:
		return "scan"
	case StreamKind_STREAM_KIND_DECISIONS:
		return "decisions"
	default:
		return "unspecified"
	}
}
