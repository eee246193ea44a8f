// SPDX-License-Identifier: Apache-2.0

package debtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// ELF makes the smallest program that says which shared library it needs.
func ELF(needs string) []byte {
	const head, section = 64, 64
	names := "\x00" + needs + "\x00"
	dynamic := make([]byte, 0, 32)
	for _, v := range []uint64{uint64(elf.DT_NEEDED), 1, uint64(elf.DT_NULL), 0} {
		dynamic = binary.LittleEndian.AppendUint64(dynamic, v)
	}
	var b bytes.Buffer
	put := func(v any) {
		// A buffer takes everything.
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	put(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: head, Ehsize: head, Shentsize: section, Shnum: 3, Shstrndx: 1,
	})
	data := uint64(head + 3*section)
	put(elf.Section64{})
	put(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: data, Size: uint64(len(names))})
	put(elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: data + uint64(len(names)), Size: uint64(len(dynamic)), Link: 1, Entsize: 16})
	b.WriteString(names)
	b.Write(dynamic)
	return b.Bytes()
}
