// SPDX-License-Identifier: Apache-2.0

// Package redact keeps credentials out of texts. It is the one grammar of what looks like a secret.
//
//	URL       a type that prints itself without its query
//	URLs      a text of ours, in which only addresses can hold credentials
//	Text      a text of others that is shown: an error, a condition, a log line
//	Document  a text of others that leaves the cluster: everything that only looks like a secret is taken out
//	Secrets   a text that may repeat what a request carried, such as the answer to it
//	Error     an error whose text is cleaned, and whose chain stays
//
// What it decides:
//
//   - Queries and user information of addresses are credentials, always: presigned URLs carry their signature there.
//   - Text must stay readable, so a name has to be exact before what follows it is hidden: "token=abc" is, "unauthorized: no
//     such user" is not. Document hides both; nobody can ask for a bundle back.
//   - A credential of a known form (a JWT, a key of a cloud, a token of a forge) is hidden wherever it stands.
package redact
