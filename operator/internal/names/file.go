// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FileError says that something is not a valid name of a file of a Scan.
type FileError struct{ Name string }

// Error quotes the name.
func (e *FileError) Error() string {
	return fmt.Sprintf("%q is not a file name: it must be one element of a path, without slashes, backslashes and control characters", e.Name)
}

// CheckFile says whether a file of a Scan may be called so. A name with a path in it could
// lead to the files of another Scan: many stores resolve dots.
func CheckFile(filename string) error {
	bad := func(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) || r == utf8.RuneError }
	if filename == "" || filename == "." || filename == ".." || strings.ContainsFunc(filename, bad) {
		return &FileError{filename}
	}
	return nil
}
