// SPDX-License-Identifier: Apache-2.0

// Package findingpostprocessing is a ReadAndWrite hook that changes findings by rules: what matches a rule has the rule's
// override merged into it, for example another severity.
//
// What it decides:
//
//   - A rule matches as [match.Partial] says: every key it names must be in the finding with an equal value, lists in any order.
//     Unlike in cascading rules there are no wildcards.
//   - Rules apply one after another to each finding, so a later rule sees what an earlier one has written.
//   - An override is merged deeply: objects key by key, lists by index, anything else replaces, null as well; an empty
//     list leaves what is there.
//   - Findings are written back when any rule matched anywhere, even if it changed nothing. Where none matched, nothing is
//     written. A finding that no rule matches keeps its bytes.
//   - Rules are checked before anything is read. One without matches.anyOf or override is an error that names it.
package findingpostprocessing
