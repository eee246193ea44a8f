// SPDX-License-Identifier: Apache-2.0

// Package size is how command lines say a number of bytes: 1048576, 64KiB, 4MiB, 1GiB.
package size

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, 0 or more. *Size is a value of a flag.
type Size int64

// units are the units from the largest one.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// most leaves room for sums of sizes.
const most = 1 << 62

// Parse reads a size.
func Parse(text string) (Size, error) {
	digits, factor := text, int64(1)
	for _, unit := range units {
		if cut, found := strings.CutSuffix(text, unit.name); found {
			digits, factor = cut, unit.bytes
		}
	}
	value, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(value) > most/factor {
		return 0, fmt.Errorf("%q is not a size: write a number of bytes, or one with KiB, MiB or GiB", text)
	}
	return Size(int64(value) * factor), nil
}

// String writes the size in the largest unit that it is a whole number of.
func (s *Size) String() string {
	for _, unit := range units {
		if value := int64(*s); value >= unit.bytes && value%unit.bytes == 0 {
			return strconv.FormatInt(value/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads the value of a flag.
func (s *Size) Set(text string) (err error) {
	*s, err = Parse(text)
	return err
}

// Type is the name in the help.
func (*Size) Type() string { return "size" }
