// SPDX-License-Identifier: Apache-2.0

// Package trivysbom is the parser of the SBOMs that trivy makes, result type sbom-cyclonedx: one finding that links to
// the SBOM.
//
// What it decides: the SBOM itself is not looked at; it is for the hooks that take SBOMs.
package trivysbom
