// SPDX-License-Identifier: Apache-2.0

// Package testssl is the parser of testssl.sh's JSON files, flat (--jsonfile, --json) and pretty (--jsonfile-pretty,
// --json-pretty), result type testssl-json. Both make the same findings.
//
// What it decides:
//
//   - testssl rates each test itself. LOW, MEDIUM and HIGH are taken as they are, CRITICAL is HIGH. OK, INFO and DEBUG are
//     no findings: there are some sixty of them per host, and they say that all is well.
//   - WARN and FATAL mean that testssl could not do a test, or not reach a host. They are INFORMATIONAL findings of the
//     category Scan Problem. A report in which nothing was tested because of a FATAL problem is an error, not a clean bill.
//   - Each endpoint whose protocols were tested makes one more finding, TLS Service, with the versions that it offers, as
//     the parser of sslyze does. It comes behind the endpoint's other findings.
//   - The category comes from the test's id, since only the pretty file has sections.
//   - The flat file is read one test at a time, the pretty one one endpoint at a time.
package testssl
