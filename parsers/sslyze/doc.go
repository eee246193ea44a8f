// SPDX-License-Identifier: Apache-2.0

// Package sslyze is the parser of sslyze's JSON report, result type sslyze-json: one finding about the TLS service, one
// for each outdated version of TLS that it speaks, and one for each certificate that is not trusted.
//
// What it decides: only the first server of a report counts; it is decoded whole, the others are passed over. Its
// findings wait for the end of the report, where sslyze writes when the scan was completed. A certificate is trusted if
// no trust store objects, or the user's own CA vouches for it; if all are, there is no finding about them, else one for
// the gravest objection against each. A server that could not be reached has no findings.
package sslyze
