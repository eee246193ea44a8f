// SPDX-License-Identifier: Apache-2.0

// Package child builds the Scan that a cascading rule starts for a finding, from the Scan that had the finding.
//
// What it decides:
//
//   - Texts of the rule are mustache templates over the finding, over which the parent Scan lies, and `$.hostOrIP`.
//     Rendered are scanType, parameters, values of env, commands and env values of initContainers, values of labels
//     and annotations; nothing else.
//   - What is inherited: see the flags of `spec.cascades`. Fields that the rule of the parent had added to the parent are removed
//     first, so that grandchildren do not get them.
//   - Annotations that bound the scope go from parent to child whatever the flags say, and a rule that sets one is
//     refused.
//   - The name is a function of parent, rule and finding: a hook that runs again makes the same Scans. It is the
//     readable prefix that the API server would make of generateName, and a hash where that has random letters.
//   - Additions, each off unless the parent's `spec.cascades` turns it on: node selector, resources and TTL are
//     inherited, equal children of one chain are one.
//
// Objects are finding.Object, undecoded JSON: fields that this release does not know survive, and a number that fits into no
// field spoils only itself. A rule is compiled once ([NewRule]) and built many times.
package child
