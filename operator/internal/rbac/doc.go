// SPDX-License-Identifier: Apache-2.0

// Package rbac gives the pods of a Scan the rights they need, and no more.
//
// Scanner pods run as lurker, an account per namespace: charts bind to its name. The parser of a Scan,
// and those of its hooks that name no account of their own, run as an account of this one Scan, whose
// Role names this Scan. The account is made before the scanner's Job, so that the API server knows the
// account when the parser starts, and removed when the Scan has ended; its tokens, and its Role and
// RoleBinding, which the account owns, go with it. The Scan owns the account.
//
//	Scan ──owns──► ServiceAccount scan-NAME-HASH ──owns──► Role, RoleBinding
//
// In shared mode parsers and hooks run as parser and scan-completion-hook, as in
// secureCodeBox: one account for all Scans of a namespace, which reaches all of them.
//
// A hook that runs in another namespace gets a Role and RoleBinding of its own per Scan and, unless the
// hook names one, an account of its own there.
package rbac
