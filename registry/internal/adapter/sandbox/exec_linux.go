// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	accessRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	accessExecute = accessRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	accessWrite   = accessRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER
	// accessAll is what is forbidden where no rule allows it.
	accessAll = accessExecute | accessWrite | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	// accessFile is what a rule for a file may name.
	accessFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_EXECUTE

	ruleNetPort = 2
	// scopedABI is the first version that knows sockets without a file and signals.
	scopedABI = 6
	// firstInherited is the descriptor behind standard error.
	firstInherited = 3
)

// abi is the version of the kernel's Landlock; 0: none.
var abi = sync.OnceValue(func() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
})

// Main confines the process by a policy and becomes the program: arguments are those behind Subcommand. It returns only an error.
func Main(arguments, environment []string) error {
	if len(arguments) < 2 {
		return errors.New("adapter-exec: needs a policy and a program")
	}
	var p Policy
	if err := json.Unmarshal([]byte(arguments[0]), &p); err != nil {
		return fmt.Errorf("adapter-exec: read policy: %w", err)
	}
	// Landlock holds for a thread, and execve takes that of the thread which calls it.
	runtime.LockOSThread()
	if err := p.limit(); err != nil {
		return fmt.Errorf("adapter-exec: %w", err)
	}
	if p.Confine {
		if err := errors.Join(p.landlock(), onlyTCP()); err != nil {
			return fmt.Errorf("adapter-exec: %w", err)
		}
	}
	if err := syscall.Exec(arguments[1], arguments[1:], environment); err != nil {
		return fmt.Errorf("adapter-exec: start %s: %w", arguments[1], err)
	}
	return nil
}

func (p Policy) limit() error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0}
	if p.FileBytes > 0 {
		limits[unix.RLIMIT_FSIZE] = p.FileBytes
	}
	if p.OpenFiles > 0 {
		limits[unix.RLIMIT_NOFILE] = p.OpenFiles
	}
	for resource, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("read limit %d: %w", resource, err)
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := unix.CloseRange(firstInherited, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return nil
}

func (p Policy) landlock() (err error) {
	attributes := unix.LandlockRulesetAttr{
		Handled_access_fs: accessAll, Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
	}
	if abi() >= scopedABI {
		attributes.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	//nolint:gosec // the kernel takes the address of the attributes
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock rules: %w", errno)
	}
	ruleset := int(fd)
	defer func() { err = errors.Join(err, unix.Close(ruleset)) }()
	for access, paths := range map[uint64][]string{accessRead: p.Read, accessExecute: p.Execute, accessWrite: p.Write} {
		for _, path := range paths {
			if err := allowPath(ruleset, path, access); err != nil {
				return err
			}
		}
	}
	for _, port := range p.Connect {
		rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		//nolint:gosec // the kernel takes the address of the rule
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, ruleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("allow port %d: %w", port, errno)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("hold to Landlock rules: %w", errno)
	}
	return nil
}

func allowPath(ruleset int, path string, access uint64) (err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= accessFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	const kind = unix.LANDLOCK_RULE_PATH_BENEATH
	//nolint:gosec // the kernel takes the address of the rule
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), kind, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}
