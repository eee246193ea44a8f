// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Keys seal entries. The first one seals; all are known, so that entries outlive a rotation.
type Keys [][]byte

// Seal returns the entry with its seal.
func (k Keys) Seal(scan types.UID, entry executionv1.SinkProgress) executionv1.SinkProgress {
	if len(k) > 0 {
		entry.Seal = sealOf(k[0], scan, entry)
	}
	return entry
}

// Valid tells whether the forwarder has written the entry for this Scan.
func (k Keys) Valid(scan types.UID, entry executionv1.SinkProgress) bool {
	return slices.ContainsFunc(k, func(key []byte) bool { return hmac.Equal([]byte(sealOf(key, scan, entry)), []byte(entry.Seal)) })
}

// sealOf is over the Scan's UID and all other fields, as JSON writes them: times by the second, keys of maps sorted.
func sealOf(key []byte, scan types.UID, entry executionv1.SinkProgress) string {
	entry.Seal = ""
	text, err := json.Marshal(struct {
		Scan  types.UID                `json:"scan"`
		Entry executionv1.SinkProgress `json:"entry"`
	}{scan, entry})
	if err != nil {
		return "" // texts, numbers and times can be written
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}
