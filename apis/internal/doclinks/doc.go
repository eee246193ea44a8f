// SPDX-License-Identifier: Apache-2.0

// Package doclinks decides, in its tests only, whether the documentation still fits
// the repository: relative links lead somewhere, and the tests that docs/defects.md
// names exist.
package doclinks
