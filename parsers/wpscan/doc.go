// SPDX-License-Identifier: Apache-2.0

// Package wpscan is the parser of WPScan's JSON report, result type wpscan-json: one finding for the site, and one per
// interesting finding of WPScan.
//
// What it decides:
//
//   - Plugins, themes and the vulnerabilities of the WordPress version make no findings of their own. The format's
//     first parser dropped them, and clients count on equal findings; the vulnerabilities of the version are an
//     attribute of the site's finding.
//   - The site's finding comes first but needs what stands at the end of the report (stop_time), so the report is read
//     twice: once for that, passing over the interesting findings, and once for these, one at a time.
//   - A report without target_url holds nothing. One of a scan that was aborted has no stop_time, and is unreadable, as
//     is one without banner (--no-banner) or interesting_findings.
package wpscan
