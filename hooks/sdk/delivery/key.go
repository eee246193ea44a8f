// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Key derives an idempotency key from the parts of a delivery: the same parts give the same key, and different lists of parts
// give different keys. It looks like a UUID (version 8 of RFC 9562), since some receivers accept nothing else.
func Key(parts ...string) string {
	hash := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	id := hash.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
