// SPDX-License-Identifier: Apache-2.0

// Package httpsink sends records as CloudEvents by HTTP. It registers the schemes http and https.
//
// What an answer means for the data is one table, classOf. Redirects are not followed: they would carry findings to a place that nobody
// has named. A probe has nothing to ask a plain HTTP server, so the next batch is the probe.
package httpsink
