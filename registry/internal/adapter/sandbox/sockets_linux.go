// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock holds plain TCP only: MPTCP, UDP and sockets with a file go by it. So a filter of system calls leaves no other sockets than
// those of TCP. Offsets are those of struct seccomp_data.
const (
	offsetCall     = 0
	offsetArch     = 4
	offsetDomain   = 16
	offsetType     = 24
	offsetProtocol = 32

	load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	mask = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	most = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	give = unix.BPF_RET | unix.BPF_K

	typeMask = 0xf
	// otherCalls is the first call of amd64's second table (x32), which this filter does not know.
	otherCalls = 0x40000000
)

// architectures are the kernel's names of those that the filter knows.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// onlyTCP takes all sockets but those of TCP from the thread, and io_uring, which opens sockets by other calls.
func onlyTCP() error {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return fmt.Errorf("sockets cannot be confined on %s", runtime.GOARCH)
	}
	const refuse, kill = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES), unix.SECCOMP_RET_KILL_PROCESS
	filter := []unix.SockFilter{
		0:  {Code: load, K: offsetArch},
		1:  {Code: same, Jt: 1, K: arch},
		2:  {Code: give, K: kill},
		3:  {Code: load, K: offsetCall},
		4:  {Code: most, Jt: 13, K: otherCalls},
		5:  {Code: same, Jt: 11, K: unix.SYS_IO_URING_SETUP},
		6:  {Code: same, Jf: 9, K: unix.SYS_SOCKET},
		7:  {Code: load, K: offsetDomain},
		8:  {Code: same, Jt: 1, K: unix.AF_INET},
		9:  {Code: same, Jf: 7, K: unix.AF_INET6},
		10: {Code: load, K: offsetType},
		11: {Code: mask, K: typeMask},
		12: {Code: same, Jf: 4, K: unix.SOCK_STREAM},
		13: {Code: load, K: offsetProtocol},
		14: {Code: same, Jt: 1, K: 0},
		15: {Code: same, Jf: 1, K: unix.IPPROTO_TCP},
		16: {Code: give, K: unix.SECCOMP_RET_ALLOW},
		17: {Code: give, K: refuse},
		18: {Code: give, K: kill},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	//nolint:gosec // the kernel takes the address of the filter
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("filter sockets: %w", err)
	}
	runtime.KeepAlive(filter)
	return nil
}
