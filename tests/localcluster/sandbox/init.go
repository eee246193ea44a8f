// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitNotStarted is what container runtimes report for a program that could
// not be started.
const exitNotStarted = 128

func init() {
	if len(os.Args) != 1 || os.Args[0] != ProcessName {
		return
	}
	runtime.LockOSThread()
	errs := os.NewFile(errorFD, "errors")
	syscall.CloseOnExec(errorFD)
	err := run()
	// run only returns if the program was not executed.
	if _, writeErr := errs.WriteString(err.Error()); writeErr != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exitNotStarted)
}

func run() error {
	var s Spec
	f := os.NewFile(specFD, "spec")
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return fmt.Errorf("read sandbox spec: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("read sandbox spec: %w", err)
	}
	for _, c := range s.Cgroups {
		if err := os.WriteFile(c, []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	view := buildView
	if s.Join != 0 {
		view = joinView
	}
	if err := view(&s); err != nil {
		return err
	}
	if err := dropRights(&s); err != nil {
		return err
	}
	path, err := lookPath(s.Args[0], s.Env)
	if err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, s.Args, s.Env))
}

// joinView enters the namespaces of a running container, except its pid
// namespace, which only children could enter.
func joinView(s *Spec) error {
	// Entering a mount namespace is refused while threads share one idea of
	// the current directory.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	spaces := []string{"ipc", "uts", "mnt"}
	if s.Rootless {
		spaces = append([]string{"user"}, spaces...)
	}
	var files []*os.File
	for _, n := range spaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", s.Join, n))
		if err != nil {
			return fmt.Errorf("enter container: %w", err)
		}
		files = append(files, f)
	}
	for _, f := range files {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("enter container: %w", err)
		}
		closeAll(f)
	}
	if err := os.Chdir(s.WorkingDir); err != nil {
		return fmt.Errorf("enter container: %w", err)
	}
	return nil
}

// buildView makes the container's file system and moves into it. What comes
// from the machine is opened first and attached last, from inside: links in an
// image (/var/run, for one) then lead to places of the image and not to the
// machine's.
func buildView(s *Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	trees, err := openTrees(s)
	if err != nil {
		return err
	}
	mount := mountRoot
	if s.Rootless && s.Root == "/" {
		mount = mountHostByParts
	}
	root, err := mount(s)
	if err != nil {
		return err
	}
	if err := mountProc(root); err != nil {
		return err
	}
	if err := enter(root); err != nil {
		return err
	}
	if err := makeDev(); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return fmt.Errorf("mount %s: %w", t.target, err)
		}
	}
	if err := os.MkdirAll(s.WorkingDir, 0o755); err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("set hostname: %w", err)
	}
	if s.ReadOnlyRoot {
		if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make root read-only: %w", err)
		}
	}
	if err := os.Chdir(s.WorkingDir); err != nil {
		return fmt.Errorf("change to working directory: %w", err)
	}
	return nil
}

// mountRoot lays a writable layer over the image's files.
func mountRoot(s *Spec) (string, error) {
	mount := func() (string, error) {
		upper, work, merged := filepath.Join(s.Scratch, "upper"), filepath.Join(s.Scratch, "work"), filepath.Join(s.Scratch, "root")
		for _, d := range []string{upper, work, merged} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return "", fmt.Errorf("make container layer: %w", err)
			}
		}
		opts := layer(s.Root, upper, work)
		if s.Rootless {
			opts += ",userxattr"
		}
		return merged, unix.Mount("overlay", merged, "overlay", 0, opts)
	}
	root, err := mount()
	if err == nil {
		return root, nil
	}
	// The layer cannot be on some file systems (another overlay, for one): a
	// memory file system can always carry it.
	if tmpErr := unix.Mount("tmpfs", s.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); tmpErr != nil {
		return "", fmt.Errorf("mount container root: %w", err)
	}
	root, err = mount()
	if err != nil {
		return "", fmt.Errorf("mount container root: %w", err)
	}
	return root, nil
}

// layer returns the options of an overlay mount. A container's layer is removed with the container, so that
// nothing is lost where it never reaches the disk: without "volatile" the kernel writes the whole file system of
// the layer to the disk whenever a container ends (Linux: Documentation/filesystems/overlayfs.rst), and every
// etcd of the machine waits for that.
func layer(lower, upper, work string) string {
	return "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work + ",volatile"
}

// enter makes root the file system and forgets the machine's.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter container root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter container root: %w", err)
	}
	return nil
}

// dropRights becomes the container's user.
func dropRights(s *Spec) error {
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if !s.AllCapabilities {
		keep := map[int]bool{}
		for _, c := range s.Capabilities {
			keep[c] = true
		}
		for c := 0; c <= unix.CAP_LAST_CAP; c++ {
			if keep[c] {
				continue
			}
			// EINVAL: this kernel is older and has no such capability.
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
	}
	if !s.Rootless {
		if err := syscall.Setgroups(s.Groups); err != nil {
			return fmt.Errorf("set groups: %w", err)
		}
		if err := syscall.Setgid(s.GID); err != nil {
			return fmt.Errorf("set group: %w", err)
		}
		if err := syscall.Setuid(s.UID); err != nil {
			return fmt.Errorf("set user: %w", err)
		}
	}
	// The kernel forgets this one when the user changes.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	return nil
}

// lookPath finds a program as a container runtime does, with the container's
// own PATH. The words of the error are theirs, since users search for them.
func lookPath(file string, env []string) (string, error) {
	if strings.Contains(file, "/") {
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("exec: %q: stat %s: no such file or directory", file, file)
		}
		return file, nil
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		p := filepath.Join(d, file)
		if st, err := os.Stat(p); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", file)
}
