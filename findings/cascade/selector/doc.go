// SPDX-License-Identifier: Apache-2.0

// Package selector turns the matchLabels and matchExpressions of a Scan's `spec.cascades` into the text of a label
// selector, and returns which cascading rules it selects.
//
// What it decides: labels come first, then expressions, each in the order they are written; no selector at all selects
// every rule. An operator that Kubernetes does not have is an error, and so is an In without values: to select nothing by
// mistake is bad, to select everything is worse.
package selector
