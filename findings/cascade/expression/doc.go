// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates `matches.expression` of a cascading rule: a CEL expression over one finding, for what
// anyOf cannot say (ranges, regular expressions, elements of lists, negations across fields).
//
//	finding.category == "Open Port" && finding.attributes.port in [80, 8080] && finding.attributes.?tunnel.orValue("") == ""
//
// What it decides:
//
//   - The only variable is finding. Its fields are those of a finding (see [Fields]): any other name is a mistake that
//     [Compile] finds, so that a typo is reported at once and not by scans that never start. A field that another hook has
//     added is finding["its name"]. The fields below attributes depend on the scanner and are known at run time only.
//   - The result must be a boolean. If a field is missing, or two values cannot be compared, the result is false.
//   - Whole numbers of the finding are integers, so that port == 443 holds; others are doubles.
//   - One evaluation may cost [CostLimit] and a text be [MaxLength] long; beyond that the rule is in error. Expressions
//     see neither time nor network.
package expression
