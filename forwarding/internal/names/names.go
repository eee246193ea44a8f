// SPDX-License-Identifier: Apache-2.0

// Package names gives the files and objects of streams their places: DIRECTORY/CLUSTER/TENANT/….
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// longest leaves room for what is put behind a name; file systems take 255 bytes.
const longest = 160

// Escape makes one element of a path from a foreign name: what is not a letter, a digit, a dash, an underscore or a dot inside
// is percent-encoded, so that no name leads elsewhere or hides. Of a long name the end is replaced by its digest.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	switch {
	case b.Len() == 0:
		return "%"
	case b.Len() > longest:
		sum := sha256.Sum256([]byte(name))
		return b.String()[:longest] + "-" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// Directory is where a stream has its place.
func Directory(stream *forwardingv1.StreamId) string {
	return path.Join(Escape(stream.GetClusterId()), Escape(stream.GetTenant()))
}

// Run is the name of one run of a Scan.
func Run(stream *forwardingv1.StreamId) string {
	return fmt.Sprintf("%s-%d", Escape(stream.GetUid()), stream.GetRevision())
}
