// SPDX-License-Identifier: Apache-2.0

// Package cyclonedx is the parser of CycloneDX bills of materials in JSON, result type cyclonedx: one finding that counts
// the components, and one per vulnerability that the document lists.
//
//	pass 1   everything ──► counts, what the document is about, which components have vulnerabilities
//	pass 2   components ──► their names, only if there are vulnerabilities
//	pass 3   vulnerabilities ──► findings, one at a time
//
// What it decides:
//
//   - Components are counted by type, by ecosystem (the type of their package URL) and by licence, nested ones too. The
//     component that the document is about is not one of them. A component with several licences counts under each.
//   - The finding about the document does not hold what changes with every run, such as its serial number and the time:
//     two runs over the same thing give the same finding.
//   - A vulnerability's severity is the highest of its ratings: by word, or by CVSS score or vector where there is no
//     word. Ratings by other methods than CVSS count by their word only. Without any it is INFORMATIONAL, but HIGH if it
//     is a malicious package (MAL-…).
//   - Vulnerabilities that an author has analysed and found to be resolved, a false positive, or of no effect are no
//     findings.
//   - A vulnerability is one finding, also if it affects several components. Its location is the first of them.
//   - Names of affected components are kept up to Limits.MaxHeld; beyond it a component is called by its reference.
//   - Only JSON is read. CycloneDX in XML is refused.
package cyclonedx
