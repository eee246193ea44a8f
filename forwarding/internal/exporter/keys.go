// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

// keyFiles name files of keys. The first key seals what is written, each opens what it has sealed.
type keyFiles []string

func (k *keyFiles) bind(set *pflag.FlagSet) {
	set.StringArrayVar((*[]string)(k), "encryption-key-file", nil,
		"file with a key of 32 bytes that seals what is on disk; may be given several times: the first one seals, each opens")
}

// read gives the keys. Nothing that it says tells of their bytes.
func (k *keyFiles) read() ([][]byte, error) {
	var keys [][]byte
	for _, path := range *k {
		secret, err := os.ReadFile(path)
		if err != nil {
			return nil, usage("--encryption-key-file: %w", err)
		}
		if len(secret) != queue.KeySize {
			return nil, usage("--encryption-key-file: %s has %d bytes, and must have %d, such as head -c 32 /dev/urandom makes", path, len(secret), queue.KeySize)
		}
		keys = append(keys, secret)
	}
	return keys, nil
}
