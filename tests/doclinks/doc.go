// SPDX-License-Identifier: Apache-2.0

// Package doclinks decides, in its tests only, whether the documentation still fits
// the repository: relative links lead somewhere, the files and folders that documents name exist,
// the README of each module names the module's folders, the tests that docs/defects.md
// names exist, and every flag, variable, state and reason is explained.
package doclinks
