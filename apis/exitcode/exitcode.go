// SPDX-License-Identifier: Apache-2.0

// Package exitcode holds the exit codes with which a parser or a hook says that trying again cannot help. The operator
// ends the Job at the first of them; every other code but 0 is a try that failed, and the Job makes the next one. The
// numbers are those of sysexits.h, which programs have used for these cases for decades.
package exitcode

const (
	// InvalidInput says that the input cannot be read: the same bytes fail in the same way each time.
	InvalidInput = 65
	// Refused says that credentials, or a URL that was signed for this run, are not accepted.
	Refused = 77
	// Configuration says that a setting is missing or wrong.
	Configuration = 78
)

// Final are the codes after which nothing is tried again.
func Final() []int32 { return []int32{InvalidInput, Refused, Configuration} }
