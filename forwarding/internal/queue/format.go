// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// formatFile tells the format of the directory to whoever may not open it.
const formatFile = "format"

// checkFormat refuses a directory of a newer program before anything in it is touched.
func (q *Queue) checkFormat() error {
	newer := func(format int) error { return &FormatError{Dir: q.options.Dir, Format: format} }
	if _, err := pebble.Peek(q.options.Dir, fileSystem(q.options.FS)); err != nil && strings.Contains(err.Error(), "format major version") {
		return newer(formatVersion + 1) // Pebble tells by nothing but a text; all other errors come again when it is opened
	}
	if q.options.FS != nil {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(q.options.Dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is new, or tells its format inside only
	}
	if err != nil {
		return err
	}
	if format, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && format > formatVersion {
		return newer(format)
	}
	return nil // damage of one small file says nothing about the rest
}

// writeFormat writes the file where there is none.
func (q *Queue) writeFormat() error {
	if q.options.FS != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(q.options.Dir, formatFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(formatVersion) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
