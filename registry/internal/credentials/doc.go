// SPDX-License-Identifier: Apache-2.0

// Package credentials reads the Secret that a Registry names, and decides which of its credentials are for a repository and to whom
// they may be shown. It is pure.
//
//	Secret ──Read──► Set ──Match(repository)──► credentials in the order in which they are tried ──Realm──► may be sent there
//
// What it decides:
//
//   - A key fits by its host; a port or a path in the key must fit as well. The longest path comes first.
//   - credHelpers and credsStore are refused: a worker runs no program that a Secret names.
//   - Passwords go to the registry's own host, and to a token realm of the same registrable domain or of the fixed list only. What
//     is public suffix and what a domain says golang.org/x/net/publicsuffix.
//   - A credential prints itself without what is secret in it.
package credentials
