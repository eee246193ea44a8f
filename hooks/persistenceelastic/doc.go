// SPDX-License-Identifier: Apache-2.0

// Package persistenceelastic is a ReadOnly hook that writes a Scan and its findings into an index of Elasticsearch or
// OpenSearch, as documents that can be searched and counted across Scans.
//
//	PUT <index>  ─►  PUT <index>/_doc/<scan UID>  ─►  POST _bulk, again and again, until every finding is in
//
// What it decides:
//
//   - Every document has an id: the Scan's UID for the Scan, UID and id for a finding. A restarted Job writes the
//     same documents again, not further ones, so each finding is there exactly once.
//   - For that the name of the index must be the same again, too. Its date is that of the moment at which the findings
//     were stored, which the Scan's condition Parsed holds; only under an operator that sets none it is the hook's clock.
//   - An existing index is used unchanged. Everything else that is wrong with it ends the hook.
//   - A bulk request is answered for each document. Those that may go in later (429, 5xx) are sent again alone; those
//     that are refused for good end the hook with their number and reasons, after all others were written.
//   - The remote service guesses the types of fields unless ELASTICSEARCH_MAPPINGS says otherwise.
//   - Only what both products have in common is used: plain JSON and NDJSON, no headers of either product.
//
// Dashboards are not made.
package persistenceelastic
