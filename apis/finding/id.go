// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"crypto/sha1" //nolint:gosec // the hash that RFC 9562 names for version 5; it identifies, it protects nothing
	"crypto/sha256"
	"time"
)

// idSpace is the root of all ids, a random UUID that never changes.
var idSpace = [16]byte{0x5c, 0x8d, 0x0b, 0x1e, 0x6f, 0x2a, 0x4d, 0x57, 0x9b, 0x31, 0xe4, 0x70, 0x2c, 0xa9, 0x18, 0x63}

// ID derives the id of a finding: the version 5 UUID (RFC 9562)
//
//	v5(v5(v5(root, namespace of the Scan), ScanType), content)
//
// of the finding's content: its JSON members as AppendJSON writes them, in that order and joined by commas, without
// id, fingerprint, identified_at, parsed_at and scan. So the same finding has the same id in every run of the same scanner in
// the same namespace and in every retry, whatever the Scan is called. Two findings of one run that are equal in
// everything have the same id as well: they say the same thing twice.
func ID(namespace, scanType string, content []byte) string {
	space := idSpaceOf(namespace, scanType)
	sum := v5(append(space[:], content...))
	return string(appendUUID(nil, sum))
}

func idSpaceOf(namespace, scanType string) [16]byte {
	space := v5(append(idSpace[:], namespace...))
	return v5(append(space[:], scanType...))
}

// v5 hashes a space (16 bytes) followed by a name.
func v5(spaceAndName []byte) (id [16]byte) {
	sum := sha1.Sum(spaceAndName) //nolint:gosec // as above
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

func appendUUID(dst []byte, id [16]byte) []byte {
	for i, b := range id {
		switch i {
		case 4, 6, 8, 10:
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// Stamp gives findings what the parser SDK adds to each: id, parsed_at, scan. It is for one goroutine.
type Stamp struct {
	space [16]byte
	tail  []byte // ,"parsed_at":"…","scan":{…}
	work  []byte
}

// TimeFormat is how times are written: ISO 8601 with milliseconds, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// NewStamp returns the Stamp of one parser run.
func NewStamp(scan ScanInfo, parsedAt time.Time) *Stamp {
	tail := append([]byte(nil), `,"parsed_at":"`...)
	tail = parsedAt.UTC().AppendFormat(tail, TimeFormat)
	tail = append(tail, '"')
	return &Stamp{
		space: idSpaceOf(scan.Namespace, scan.ScanType),
		tail:  appendScan(tail, &scan),
	}
}

// AppendJSON appends the finding with its stamp. What the finding itself says for id, parsed_at and scan is replaced.
func (s *Stamp) AppendJSON(dst []byte, f *Finding) ([]byte, error) {
	content, err := stampable(f).appendContent(s.work[:0])
	s.work = content
	if err != nil {
		return dst, err
	}
	named := append(dst, s.space[:]...) //nolint:gocritic // dst is the scratch space of the hash
	if len(content) > 0 {
		named = append(named, content[1:]...)
	}
	id := v5(named[len(dst):])
	dst = append(named[:len(dst)], `{"id":"`...) //nolint:gocritic // named may have grown dst
	dst = appendUUID(dst, id)
	dst = append(dst, '"')
	dst = appendTextMember(dst, `,"fingerprint":`, f.Fingerprint)
	dst = append(dst, content...)
	dst = appendTextMember(dst, `,"identified_at":`, f.IdentifiedAt)
	dst = append(dst, s.tail...)
	return append(dst, '}'), nil
}

// stampable leaves out the keys of Extra that the stamp writes.
func stampable(f *Finding) *Finding {
	if len(f.Extra) == 0 {
		return f
	}
	g := *f
	g.Extra = make(Object, 0, len(f.Extra))
	for _, m := range f.Extra {
		switch m.Key {
		case "id", "parsed_at", "scan":
		default:
			g.Extra = append(g.Extra, m)
		}
	}
	return &g
}

// Fingerprint names what a finding is about, so that two runs compare: the first 16 bytes, in hexadecimal, of the
// SHA-256 of identity. Identity holds the result type, the category and whatever else tells this kind of finding from
// its like, but nothing that changes while the thing stays the same: no line numbers, no times, no texts that a new
// release of the scanner may word differently.
func Fingerprint(identity []byte) string {
	sum := sha256.Sum256(identity)
	dst := make([]byte, 0, 32)
	for _, b := range sum[:16] {
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return string(dst)
}
