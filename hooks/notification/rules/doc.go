// SPDX-License-Identifier: Apache-2.0

// Package rules says of which findings a channel is to hear.
//
//	[{matches: {anyOf: [{severity: HIGH}], states: [new]}}] ──Parse──► Rules ──Match(finding, state)──► yes or no
//
// What it decides:
//
//   - A finding must meet all rules, and of each rule one condition and one state. No rules let everything pass that is not fixed.
//   - Rules are those of secureCodeBox, with states beside anyOf. What a rule does not know is an error.
package rules
