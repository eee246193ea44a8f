// SPDX-License-Identifier: Apache-2.0

// Package awstest plays SQS and ECS in tests, as strictly as their API references say.
//
// Requests come from the real SDK over HTTP and must be signed and complete: an operation
// that is not played, a field that is not documented, a number out of bounds and a
// receipt handle that is not the newest are refused as AWS refuses them. Time is the
// test's: messages become visible again when its clock says so.
package awstest
