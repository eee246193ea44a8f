// SPDX-License-Identifier: Apache-2.0

// Package doctor checks an installation as a user sees it, end to end: the API server, our kinds, the
// operator, the user's rights, the scan types, and a scan that goes through pods, images and object
// storage to findings that the user can read. Each check has a result and, where the result is not OK, a
// remedy. Pure functions compute the results from what was read.
package doctor
