// SPDX-License-Identifier: Apache-2.0

// Package gitleaks is the parser of gitleaks' JSON report, result type gitleaks-json: one finding per leak.
//
// What it decides: the severity comes from the rule's tags (HIGH, LOW, else MEDIUM). The commit becomes a link if the
// Scan's annotation metadata.scan.securecodebox.io/git-repo-url says where the repository is. An empty report and the
// report null hold no leaks; a leak without tags makes the report unreadable.
package gitleaks
