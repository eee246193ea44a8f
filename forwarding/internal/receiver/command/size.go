// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// size is a number of bytes with an optional unit.
type size uint64

var units = []struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// String writes the size in the largest unit that it is a whole number of.
func (s *size) String() string {
	for _, unit := range slices.Backward(units) {
		if value := uint64(*s); value >= unit.bytes && value%unit.bytes == 0 {
			return strconv.FormatUint(value/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatUint(uint64(*s), 10)
}

// Set reads a size.
func (s *size) Set(text string) error {
	digits, factor := text, uint64(1)
	for _, unit := range units {
		if cut, ok := strings.CutSuffix(text, unit.name); ok {
			digits, factor = cut, unit.bytes
		}
	}
	value, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || value > math.MaxUint64/factor {
		return fmt.Errorf("%q is no size: write a number of bytes, or one with KiB, MiB or GiB", text)
	}
	*s = size(value * factor)
	return nil
}

// Type is the name in the help.
func (*size) Type() string { return "size" }
