// SPDX-License-Identifier: Apache-2.0

// Package nikto is the parser of nikto's JSON report, result type nikto-json: one finding per vulnerability of a host.
//
// What it decides: category and severity come from the number of nikto's test. The scheme of the location is a guess
// from the port, because nikto does not write it. Hosts are read one at a time, each with all that nikto found there. A
// report that is not an array, or an empty one, holds no findings, since that is what nikto leaves of a target that does
// not answer; a vulnerability without a message makes the report unreadable.
package nikto
