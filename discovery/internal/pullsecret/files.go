// SPDX-License-Identifier: Apache-2.0

package pullsecret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

const (
	// modern and legacy are the keys of Secrets of type kubernetes.io/dockerconfigjson and
	// kubernetes.io/dockercfg.
	modern = ".dockerconfigjson"
	legacy = ".dockercfg"

	// maxFile is what a Secret holds at most.
	maxFile = 1 << 20
	// maxFiles and maxDepth bound what is looked at. Each pull secret is one folder.
	maxFiles = 256
	maxDepth = 4
)

// ReadFiles returns the pull secrets below a folder in the order of their paths. Folders
// that begin with two dots are how the kubelet swaps the content of a volume: what is in
// them is seen through links beside them.
func ReadFiles(root fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), "..") || strings.Count(name, "/") >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		if base := path.Base(name); base != modern && base != legacy {
			return nil
		}
		if len(files) == maxFiles {
			return fmt.Errorf("there are more than %d pull secrets", maxFiles)
		}
		content, err := read(root, name)
		if err != nil {
			return err
		}
		files = append(files, File{Name: name, Content: content, Legacy: path.Base(name) == legacy})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pull secrets: %w", err)
	}
	return files, nil
}

func read(root fs.FS, name string) (_ []byte, err error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than a Secret can be", name)
	}
	return content, nil
}
