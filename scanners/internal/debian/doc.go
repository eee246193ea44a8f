// SPDX-License-Identifier: Apache-2.0

// Package debian decides which packages of a Debian archive make an image, and takes them apart:
//
//	InRelease ─signature─► hashes ─► Packages ─► Resolve ─► lock      ("images lock", needs the mirror's lists)
//	lock ─SHA256─► .deb ─► files of a layer.Tree                      ("images build", needs only the packages)
//
// Neither dpkg nor root is needed. Maintainer scripts are not run: what an image needs of them (links of
// update-alternatives, accounts, caches) is written down in its recipe.
//
// Everything that comes from a mirror is bounded in size and checked against a hash before it is used.
package debian
