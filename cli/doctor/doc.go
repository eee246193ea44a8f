// SPDX-License-Identifier: Apache-2.0

// Package doctor checks an installation from a user's place, end to end: the API server,
// our kinds, the operator, the user's rights, the scan types, and a scan that goes
// through pods, images and object storage to findings in the user's hands. Each check has
// a verdict and, where it is not good, a remedy. What is seen is judged by pure functions.
package doctor
