// SPDX-License-Identifier: Apache-2.0

// Package release makes a small release of a copy of this repository, pushes it to a registry in this process, and takes everything from
// there that a user would, with the programs that a user has: sha256sum, openssl, tar and Helm.
package release
