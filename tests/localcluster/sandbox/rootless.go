// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownParts are the top-level directories that a container has of its own.
var ownParts = map[string]bool{"proc": true, "sys": true, "dev": true, "tmp": true, "run": true}

// mountHostByParts makes the view of the machine's files without root's
// rights. A user namespace may not lay one layer over a "/" that other file
// systems are mounted in, so every top-level directory gets a layer of its
// own; one that cannot have it is shown read-only.
func mountHostByParts(s *Spec) (string, error) {
	root := filepath.Join(s.Scratch, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make container root: %w", err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return "", fmt.Errorf("mount container root: %w", err)
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return "", fmt.Errorf("read machine root: %w", err)
	}
	for _, e := range entries {
		target := filepath.Join(root, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink("/" + e.Name())
			if err != nil {
				return "", fmt.Errorf("show /%s: %w", e.Name(), err)
			}
			if err := os.Symlink(to, target); err != nil {
				return "", fmt.Errorf("show /%s: %w", e.Name(), err)
			}
		case e.IsDir():
			if err := mountPart(s, e.Name(), target); err != nil {
				return "", fmt.Errorf("show /%s: %w", e.Name(), err)
			}
		}
	}
	return root, nil
}

func mountPart(s *Spec, name, target string) error {
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	if ownParts[name] {
		return nil
	}
	upper, work := filepath.Join(s.Scratch, "upper", name), filepath.Join(s.Scratch, "work", name)
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	source := "/" + name
	layerErr := unix.Mount("overlay", target, "overlay", 0, layer(source, upper, work)+",userxattr")
	if layerErr == nil {
		return nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if errors.Is(err, unix.EACCES) {
		return nil // this user may not look into it, and neither may the container
	}
	if err != nil {
		return errors.Join(layerErr, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return unix.Close(fd)
}
