// SPDX-License-Identifier: Apache-2.0

// Package results reads what Scans have stored, for commands: the raw result and findings.json, through the links in the
// status of a Scan. A user needs rights on Scans only, none on object storage.
//
//	status link ── good for longer? ──► download ──► stream
//	    │ no, or refused as expired
//	    └─► annotation scanyard.io/rerun: links@… ──► the operator writes fresh links ──► download
//
// What it decides:
//
//   - A link that is about to run out, has run out, or is missing is asked for anew, once, and waited for, for a bounded
//     time. Every end of that waiting has a remedy.
//   - Asking never overwrites the request of a re-run that the operator has not answered yet.
//   - Links are secrets: no message has their query.
//   - A host that does not exist ends reading at once; other faults are waited out for a short time, since somebody sits
//     and waits.
//   - What is read several times is kept in a file that has no name, where the system can do that, so that nothing stays
//     behind.
package results
