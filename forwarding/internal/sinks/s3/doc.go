// SPDX-License-Identifier: Apache-2.0

// Package s3 is the sink of scheme s3: s3://BUCKET/PREFIX. Records become CloudEvents, one per line, in objects that are compressed with zstd.
//
//	PREFIX/CLUSTER/TENANT/UID-REVISION.ndjson.zst                    the records of one run of a Scan
//	PREFIX/CLUSTER/TENANT/UID-REVISION.closing.json                  put last: count, chain, and size, ETag and checksum of the object
//	PREFIX/CLUSTER/TENANT/decisions/UID/SEQUENCE-DIGEST.ndjson.zst   decisions, from the one with this sequence on
//
// A run is whole as soon as its closing object is there and agrees with the object: that is the proof. What a closing object vouches for is
// never written over: writes are conditional. A run that was broken off is begun anew, since nothing shows of it before it is whole.
// Decisions are acknowledged with each batch: their object is put again with more in it, for 5 minutes or up to 16 MiB. Where objects are
// locked, each batch is an object of its own.
package s3
