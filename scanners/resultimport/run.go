// SPDX-License-Identifier: Apache-2.0

package resultimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/scanyard/scanyard/apis/resultimport"
)

const usage = "usage: import-result FILE [NAME]; the parts of the result are mounted by what \"scanyard import\" has written"

// maxManifest bounds what is read of the manifest.
const maxManifest = 64 << 10

// Run writes the result to the file that the first argument names. A second argument only tells people what was imported.
// root is "" outside of tests.
func Run(root string, args []string, out io.Writer) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New(usage)
	}
	m, err := manifest(root)
	if err != nil {
		return err
	}
	parts, closeAll, err := open(root, m.Parts)
	if err != nil {
		return err
	}
	defer closeAll()
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	if err := errors.Join(m.Join(f, parts), f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "import-result: %d bytes with SHA-256 %s are the result now\n", m.Size, m.SHA256)
	return nil
}

func manifest(root string) (*resultimport.Manifest, error) {
	f, err := os.Open(filepath.Join(root, resultimport.PartDir(0), resultimport.ManifestKey))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no result to import: its ConfigMaps were removed, or the Scan was not made by \"scanyard import\". Import the file again")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	m := &resultimport.Manifest{}
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(m); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if m.Parts < 1 || m.Parts > resultimport.MaxParts {
		return nil, fmt.Errorf("the manifest names %d parts, and there may be %d", m.Parts, resultimport.MaxParts)
	}
	return m, nil
}

// open opens all parts, one behind the other.
func open(root string, n int) (parts io.Reader, closeAll func(), err error) {
	var files []*os.File
	var readers []io.Reader
	closeAll = func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
	}
	for i := range n {
		f, err := os.Open(filepath.Join(root, resultimport.PartDir(i), resultimport.PartKey))
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("part %d of %d: %w", i+1, n, err)
		}
		files, readers = append(files, f), append(readers, f)
	}
	return io.MultiReader(readers...), closeAll, nil
}
