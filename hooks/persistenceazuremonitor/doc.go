// SPDX-License-Identifier: Apache-2.0

// Package persistenceazuremonitor is a ReadOnly hook that sends findings to a Log Analytics workspace of Azure Monitor,
// each as a record that also names its Scan.
//
//	MONITOR_INGESTION_ENDPOINT set:   token of Microsoft Entra  ─►  POST …/dataCollectionRules/…/streams/…
//	else:                             HMAC by the shared key    ─►  POST …/api/logs
//
// What it decides:
//
//   - Settings choose between two interfaces. The Logs Ingestion API is the one to use; Microsoft has announced the end
//     of the HTTP Data Collector API for 14 September 2026. The latter stays because existing installations name its
//     settings, and what it is sent is byte for byte what secureCodeBox sends.
//   - Neither knows a record again that it has already. What was sent when the hook was killed, or when an answer was
//     lost, is sent again: at least once. Records carry the Scan's UID and the finding's id, by which queries detect repetitions.
//   - A 2xx is success even if the rest of the answer is lost, since repeating would double the records.
//   - Requests stay below what the interfaces take. A finding that is too large even alone is refused and named, after
//     all others were sent.
//   - Without findings nothing is sent.
package persistenceazuremonitor
