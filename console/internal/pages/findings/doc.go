// SPDX-License-Identifier: Apache-2.0

// Package findings has the pages of findings: the list with its facets, one finding, and the list as a file.
//
// The reports API answers where it is installed. Where it is not, findings.json of the newest runs is read, as the command
// line does, and the page says so. One finding is always shown as findings.json has it, while its Scan is there.
package findings
