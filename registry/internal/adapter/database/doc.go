// SPDX-License-Identifier: Apache-2.0

// Package database is what adapters have in common whose engine reads files: how a database is installed, described and compared.
//
//	artifact ─► archive ─► the engine's files in a directory aside ─► checked by the engine ─► the directory of the version
//
// What it decides:
//
//   - A directory of a version has a file of ours beside those of the engine: the version is the digest of the artifact, which no engine
//     tells, and the file is written last.
//   - Only files that the engine names are taken out of an archive, within a bound, whatever else is there.
//   - Two databases whose entry under Everything differs cannot be compared: what stands there concerns all packages.
package database
