// SPDX-License-Identifier: Apache-2.0

// Package gitrepo is the git-repo-scanner: it lists the repositories of a GitHub organisation, or of a GitLab group
// or server, as findings, so that cascading rules can start a scan for each.
//
//	page of the API ─► filters (ignored, activity) ─► finding ─► temporary file ─► rename to the result
//
// Memory holds one page. The result appears when it is complete, or not at all: a scan that stopped half way must
// not look like an organisation with few repositories.
//
// Server errors are tried again with back-off. A rate limit is waited for, unless that is switched off. The access
// token is sent to the API's own host only, and is in no message.
package gitrepo
