// SPDX-License-Identifier: Apache-2.0

// Package redact removes credentials from texts. It is the one grammar of texts that look like a secret.
//
//	URL       a type that prints itself without its query
//	URLs      a text of ours, in which only addresses can hold credentials
//	Text      a text of others that is shown: an error, a condition, a log line
//	Document  a text of others that leaves the cluster: everything that looks like a secret is removed
//	Secrets   a text that may repeat parts of a request, such as the response to it
//	Error     an error whose text is cleaned, and whose chain stays
//
// What it decides:
//
//   - Queries and user information of addresses are credentials, always: presigned URLs carry their signature there.
//   - Text must stay readable, so only an exact name hides what follows it: "token=abc" is hidden, "unauthorized: no such
//     user" is not. Document hides both; a bundle cannot be taken back.
//   - A credential of a known form (a JWT, a key of a cloud, a token of a forge) is hidden anywhere.
package redact
