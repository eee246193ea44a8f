// SPDX-License-Identifier: Apache-2.0

// Package sshaudit is the parser of ssh-audit's JSON report, result type ssh-audit-json: one finding about the server,
// and one for each level, action and kind of algorithm that ssh-audit recommends something about.
//
// What it decides: the level is the severity (critical is HIGH, warning MEDIUM, informational LOW). The first finding
// holds most of the report, so the report of a server is decoded whole; there is one server in a report. The target is
// cut at its first colon, also where it is an IPv6 address, as clients of the format know it. A recommendation of a
// level or an action that is not known makes the report unreadable; a report without a target holds no findings.
package sshaudit
