// SPDX-License-Identifier: Apache-2.0

// Package otlp is the sink of the scheme otlp: otlp://HOST:PORT. Records become log records of OpenTelemetry, by gRPC, or with protocol=http by HTTP.
//
//	record ──► event name: type of the CloudEvent · attributes: those of the CloudEvent, flat · body: its data as JSON
//
// What it decides:
//
//   - The protocol tells how many records of a batch were refused and not which: a batch of many is sent again in halves, until one is left.
//   - Far ends keep no ids, so that a record may arrive twice; the attribute cloudevents.event_id tells.
//   - The protocol promises no storage. It is proved only where whoever has configured the sink says so.
package otlp
