// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "errors"

func abi() int { return 0 }

// Main refuses: workers run on Linux.
func Main([]string, []string) error {
	return errors.New("adapter-exec: programs are confined on Linux only")
}
