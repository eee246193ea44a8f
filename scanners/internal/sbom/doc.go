// SPDX-License-Identifier: Apache-2.0

// Package sbom decides how the content of an image is written down: CycloneDX 1.6 JSON, with the Go modules that
// the linker recorded in each program, the Debian packages of the lock, and the vendor's image by digest. The
// same content gives the same bytes; the serial number is derived from them.
package sbom
