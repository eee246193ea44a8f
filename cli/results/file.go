// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a file as a whole or not at all: whatever stood there stays until all is written. Others cannot read
// it, since findings tell where to attack.
func WriteFile(path string, write func(io.Writer) error) error {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("%s is a folder, name a file", path)
		}
		return writeThrough(path, write) // a pipe or a device
	}
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(part)
	if err == nil {
		err = named(path, part.Sync())
	}
	err = errors.Join(err, named(path, part.Close()))
	if err == nil {
		err = named(path, os.Rename(part.Name(), path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

func named(path string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeThrough(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(write(file), named(path, file.Close()))
}
