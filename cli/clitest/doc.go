// SPDX-License-Identifier: Apache-2.0

// Package clitest runs commands of the command line in tests, as a user would type them, against a real API server and a
// real S3 server. Tests create Scans with results, and play the operator where they need to decide how it responds.
package clitest
