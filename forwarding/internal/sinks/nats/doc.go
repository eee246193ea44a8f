// SPDX-License-Identifier: Apache-2.0

// Package nats is the sink of the schemes nats and tls: tls://HOST:PORT/SUBJECT. A record is delivered when a stream of JetStream has it.
//
//	record ──Nats-Msg-Id: event id──► SUBJECT ──► stream ──PubAck──► delivered, or a duplicate
//
// What it decides:
//
//   - SUBJECT is a template with {cluster}, {tenant} and {kind}. What stands for them is one token each: no name from outside leads to another subject.
//   - The stream has to exist: the sink makes none. Nobody who listens is a far end that is set up wrong, and keeps the data.
//   - At most 256 messages wait for their acknowledgement. With ordered=true it is one, and so a subject keeps its order also where one fails.
//   - Storage is proved by a stream that is in files and refuses new messages when it is full.
package nats
