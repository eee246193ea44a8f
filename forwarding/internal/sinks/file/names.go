// SPDX-License-Identifier: Apache-2.0

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

const (
	extension = ".ndjson"
	partial   = ".partial"
	// longestName leaves room for what is put behind a name; file systems take 255 bytes.
	longestName = 160
)

// escape makes one element of a path from a foreign name: what is not a letter, a digit, a dash, an underscore or a dot inside
// is percent-encoded, so that no name leads elsewhere or hides. Of a long name the end is replaced by its digest.
func escape(name string) string {
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
	case b.Len() > longestName:
		sum := sha256.Sum256([]byte(name))
		return b.String()[:longestName] + "-" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// directory is where the files of a stream are, below the directory of the sink.
func directory(stream *forwardingv1.StreamId) string {
	return filepath.Join(escape(stream.GetClusterId()), escape(stream.GetTenant()))
}

// scanFile is the name of the file of one run of a Scan.
func scanFile(stream *forwardingv1.StreamId) string {
	return fmt.Sprintf("%s-%d%s", escape(stream.GetUid()), stream.GetRevision(), extension)
}

// segmentFile is the name of a file of decisions whose first record has the sequence.
func segmentFile(first uint64) string { return fmt.Sprintf("%020d%s", first, extension) }
