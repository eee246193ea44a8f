// SPDX-License-Identifier: Apache-2.0

// Package forwarder is the command line of the program forwarder.
// It ends with 0 when all went well, 1 when something failed, and 2 when a flag or a file that a flag names is wrong.
package forwarder
