// SPDX-License-Identifier: Apache-2.0

// Package subfinder is the parser of subfinder's JSON lines (-json), result type subfinder-json: one finding per
// subdomain.
//
// What it decides: white space around the whole report is nothing, an empty line inside it is an error. With the
// environment variable INCLUDE_TARGET_DOMAIN=true the domain that the Scan was about gets a finding as well, at the end.
//
// Lines are independent, so one line is in memory at a time.
package subfinder
