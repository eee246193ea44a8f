// SPDX-License-Identifier: Apache-2.0

// Package clitest runs commands of the command line in tests, as a user would type them, against a real API server and a
// real S3 server. Tests put Scans there with results, and play the operator where they want to decide what it answers.
package clitest
