// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a part of the machine's file system on its way into a container.
type tree struct {
	fd     int
	dir    bool
	target string
}

// openTrees opens everything that the container gets from the machine, in the
// order in which it is attached.
func openTrees(s *Spec) ([]tree, error) {
	var mounts []Mount
	if s.Root == "/" {
		host, err := hostMounts(s)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, host...)
	}
	mounts = append(mounts, Mount{Source: "/sys", Target: "/sys", ReadOnly: true})
	for _, d := range devices {
		mounts = append(mounts, Mount{Source: "/dev/" + d, Target: "/dev/" + d})
	}
	// Names resolve as on the machine, whose network the container shares.
	for _, f := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if _, err := os.Stat(f); err == nil {
			mounts = append(mounts, Mount{Source: f, Target: f, ReadOnly: true})
		}
	}
	mounts = append(mounts, s.Mounts...)
	trees := make([]tree, 0, len(mounts))
	for _, m := range mounts {
		t, err := openTree(m)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.Target, err)
		}
		trees = append(trees, t)
	}
	return trees, nil
}

func openTree(m Mount) (tree, error) {
	st, err := os.Stat(m.Source)
	if err != nil {
		return tree{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("open %s: %w", m.Source, err)
	}
	if m.ReadOnly {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return tree{}, fmt.Errorf("make read-only: %w", err)
		}
	}
	return tree{fd: fd, dir: st.IsDir(), target: filepath.Clean("/" + m.Target)}, nil
}

// attach makes the place of the tree and mounts it there; it is called inside
// the container's file system.
func (t tree) attach() error {
	if err := t.place(); err != nil {
		return err
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return err
	}
	return unix.Close(t.fd)
}

func (t tree) place() error {
	if t.dir {
		return os.MkdirAll(t.target, 0o755)
	}
	if _, err := os.Stat(t.target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(t.target), 0o755); err != nil {
		return err
	}
	// A link to nowhere would be written through: the file replaces it.
	if err := os.Remove(t.target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(t.target, nil, 0o644)
}

// devices every container has.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// mountProc runs before the machine's /proc is gone: without sight of it, a
// user namespace may not mount another.
func mountProc(root string) error {
	proc := filepath.Join(root, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return fmt.Errorf("make /proc: %w", err)
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func makeDev() error {
	if err := os.MkdirAll("/dev", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755,size=1m"); err != nil {
		return err
	}
	if err := os.Mkdir("/dev/shm", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=64m"); err != nil {
		return err
	}
	return errors.Join(
		os.Symlink("/proc/self/fd", "/dev/fd"),
		os.Symlink("/proc/self/fd/0", "/dev/stdin"),
		os.Symlink("/proc/self/fd/1", "/dev/stdout"),
		os.Symlink("/proc/self/fd/2", "/dev/stderr"),
	)
}

// hostMounts completes the view of the machine's own files. The layer over "/"
// ends at the borders of other file systems: those are shown read-only. What
// the kernel and the machine's services mount for themselves is left out, and
// /tmp is the container's own.
func hostMounts(s *Spec) ([]Mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var out []Mount
	for _, point := range storageMounts(string(b), s.Scratch) {
		if _, err := os.Stat(point); err == nil { // not hidden by another mount
			out = append(out, Mount{Source: point, Target: point, ReadOnly: true})
		}
	}
	tmp := filepath.Join(s.Scratch, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("make /tmp: %w", err)
	}
	if err := os.Chmod(tmp, os.ModeSticky|0o777); err != nil {
		return nil, fmt.Errorf("make /tmp: %w", err)
	}
	return append(out, Mount{Source: tmp, Target: "/tmp", ReadOnly: s.ReadOnlyRoot}), nil
}

// storageFS are file systems that hold people's files.
var storageFS = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true,
	"bcachefs": true, "squashfs": true, "virtiofs": true, "9p": true, "nfs": true, "nfs4": true, "cifs": true, "erofs": true,
}

// storageMounts lists the mount points of such file systems in a mountinfo
// table, except "/", what is below /tmp, and the container's own layers.
func storageMounts(mountinfo, scratch string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		const pointField = 4
		sep := -1
		for i, f := range fields {
			if f == "-" {
				sep = i
				break
			}
		}
		if sep < pointField || sep+1 >= len(fields) || !storageFS[fields[sep+1]] {
			continue
		}
		point := unescape(fields[pointField])
		switch {
		case point == "/", point == "/tmp", strings.HasPrefix(point, "/tmp/"), strings.HasPrefix(point, scratch):
			continue
		}
		out = append(out, point)
	}
	return out
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
