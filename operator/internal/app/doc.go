// SPDX-License-Identifier: Apache-2.0

// Package app wires the operator: settings in, a running manager out.
//
// Settings come from flags and from the environment variables of secureCodeBox. They
// are read and checked once, before anything starts; what is wrong is reported with
// the name of the flag or variable, all at once.
package app
