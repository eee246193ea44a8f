// SPDX-License-Identifier: Apache-2.0

// Package match decides whether a finding is what a rule wants: a partial, deep comparison of JSON values, in which
// every key that the rule names must be in the finding with an equal value. It is what rules of cascading scans, of
// finding-post-processing and of notifications have in common.
//
// What it decides:
//
//   - Objects compare key by key, further keys of the finding do not matter; an empty object fits every object.
//   - The elements of a list may stand in any order and among others; an empty list fits every list.
//   - A number never equals a text. Numbers are IEEE doubles, as everywhere in findings.
//   - [PartialWild] lets texts of the rule have wildcards: * is any run of characters, a ! in front negates. In lists a
//     text is then compared with the text at the same place only, as the JavaScript hook of this name does.
//   - [Alternative] takes a rule's condition to match in either way, first all of it literally, then all of it with
//     wildcards.
//   - [Index] finds the few alternatives that a finding can match at all. It never changes a result, it only saves
//     comparisons: it looks up in the finding a literal that an alternative needs.
//
// Values are those of finding.DecodeValue: finding.Object, []any, string, float64, bool and nil.
package match
