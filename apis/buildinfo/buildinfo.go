// SPDX-License-Identifier: Apache-2.0

// Package buildinfo says which build of Scanyard a program is.
package buildinfo

import "runtime/debug"

// The linker sets them: -X github.com/scanyard/scanyard/apis/buildinfo.version=v1.2.3 and .commit=0123abc.
var version, commit string

// Version is the version of this program: what the build was told; else that of the module, as with "go install …@v1.2.3"; else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// Commit is the commit that this program was built from, or empty if the build does not know it.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
