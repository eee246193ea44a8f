// SPDX-License-Identifier: Apache-2.0

// Package file is the sink of scheme file: CloudEvents in files, one event per line.
//
//	DIRECTORY/CLUSTER/TENANT/SCAN-UID-REVISION.ndjson         one run of a Scan, with its .sha256 beside it
//	DIRECTORY/CLUSTER/TENANT/00000000000000000001.ndjson      decisions, from the one with this sequence on
//
// A file is written as .partial, synced after each batch, and gets its name when it is whole: what has no .partial in its name
// never changes again. The file of a Scan is whole when its closing record agrees with the records before it; a file of decisions
// after 16 MiB or a minute. After a restart a .partial is gone on with, and records that it has are not written twice.
package file
