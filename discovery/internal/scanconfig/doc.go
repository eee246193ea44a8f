// SPDX-License-Identifier: Apache-2.0

// Package scanconfig turns a scanConfig of an auto-discovery and a target into a
// ScheduledScan.
//
// A scanConfig says which scanner looks at what was discovered, how often and with which
// parameters. Its texts are templates: Go's text/template with the functions of sprig.
// The fields and the rules, such as which fields are templated and where an empty result
// is dropped, are those of secureCodeBox's auto-discovery; further fields are additions,
// and say so.
//
// Rendering is a pure function of the scanConfig and the template arguments, so that it
// can be done on every pass and compared with what is there. Functions whose result
// differs from call to call are left out for that reason.
package scanconfig
