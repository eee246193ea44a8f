// SPDX-License-Identifier: Apache-2.0

// Package vers says whether a version lies in a range of versions, both of them of one ecosystem.
//
//	vers:npm/>=4.0.0|<4.17.21     from 4.0.0 on, before 4.17.21
//	vers:deb/1:1.2.13-1|1:1.2.13-2  these two
//	vers:pypi/*                   all
//
// The notation is the version range specifier of the package URL project (VERS, ECMA-427 draft). What it decides:
//
//   - Constraints may stand in any order; a version in two of them is a mistake, and so is a range with an unknown scheme.
//   - Versions are compared by the rules of the ecosystem, each by the library that vulnerability scanners use for it.
//   - Constraints with != alone mean all other versions.
package vers
