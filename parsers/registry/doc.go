// SPDX-License-Identifier: Apache-2.0

// Package registry is the parser of registry-json: the vulnerabilities of the images of a Registry, as registry-export writes them.
//
// What it decides:
//
//   - One finding for each finding of a report, and one for each image that could not be scanned: an image that nobody has looked at
//     is not an image without vulnerabilities.
//   - CRITICAL and HIGH are HIGH: there is nothing above it. UNKNOWN is INFORMATIONAL.
//   - What registry-export says of an image comes before its findings, so the document is read once, one finding at a time.
package registry
