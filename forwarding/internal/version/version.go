// SPDX-License-Identifier: Apache-2.0

// Package version tells which version of the programs of this module runs.
package version

import "runtime/debug"

// Unknown is the version of a program that was built without one.
const Unknown = "devel"

// Text is the version of the program: the tag of its release, or what Go has made of the commit.
func Text() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return Unknown
	}
	return info.Main.Version
}
