// SPDX-License-Identifier: Apache-2.0

// Package kafka is the sink of scheme kafka: kafka://HOST:PORT/TOPIC. A record is delivered when all replicas in sync have it.
// The key of a message is the stream, so that a stream keeps its order; the header id is the record's event id, by which consumers suppress duplicates.
package kafka
