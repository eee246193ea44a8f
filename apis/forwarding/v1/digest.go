// SPDX-License-Identifier: Apache-2.0

package forwardingv1

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// DigestSize is the length of a digest and of a chain.
const DigestSize = sha256.Size

// buffers are reused, as a digest is computed for each record on both sides. One that a large record has grown is let go.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4096)) }}

const keptBuffer = 64 << 10

// Digest is SHA-256 over the canonical form of the record's body: 32 bytes.
func Digest(record *Record) []byte {
	buffer := buffers.Get().(*[]byte)
	form := AppendCanonical((*buffer)[:0], record)
	sum := sha256.Sum256(form)
	if cap(form) <= keptBuffer {
		*buffer = form
		buffers.Put(buffer)
	}
	return sum[:]
}

// AppendChain is the chain after a record of this digest: SHA-256 of the chain before and the digest.
// The chain before the first record is nil or 32 zero bytes.
func AppendChain(chain, digest []byte) []byte {
	var joined [2 * DigestSize]byte
	copy(joined[:DigestSize], chain)
	copy(joined[DigestSize:], digest)
	sum := sha256.Sum256(joined[:])
	return sum[:]
}

// AppendCanonical appends the canonical form of the record's body: the fields that are present, in ascending number, each as
// number (4 bytes), length (8 bytes) and bytes. Numbers are big-endian; strings and bytes are as they are, integers have 8 bytes, a bool has 1;
// messages are written by the same rule, lists element by element, maps sorted by key, each entry as a message with the fields 1 and 2, both always written.
// What a field of proto3 without presence cannot tell from its absence (zero, "") is absent. Unknown fields do not count.
func AppendCanonical(to []byte, record *Record) []byte {
	switch body := record.GetBody().(type) {
	case *Record_Result:
		return appendResult(to, body.Result)
	case *Record_ScanSummary:
		return appendSummary(to, body.ScanSummary)
	case *Record_Decision:
		return appendDecision(to, body.Decision)
	case *Record_Closing:
		return appendClosing(to, body.Closing)
	default:
		return to
	}
}

func appendResult(to []byte, r *Result) []byte {
	to = appendText(to, 1, r.GetSubject())
	to = appendText(to, 2, r.GetControl())
	to = appendText(to, 3, r.GetRule())
	to = appendText(to, 4, r.GetAssessmentId())
	to = appendText(to, 5, r.GetOutcome())
	to = appendText(to, 6, r.GetDescription())
	to = appendText(to, 7, r.GetSeverity())
	to = appendText(to, 8, r.GetInstructions())
	to = appendTexts(to, 9, r.GetExtra())
	to = appendText(to, 10, r.GetTitle())
	to = appendText(to, 11, r.GetFindingId())
	to = appendText(to, 12, r.GetFingerprint())
	to = appendText(to, 13, r.GetCategory())
	to = appendText(to, 14, r.GetLocation())
	to = appendText(to, 15, r.GetOsiLayer())
	for _, reference := range r.GetReferences() {
		var start int
		to, start = openMessage(to, 16)
		to = appendText(to, 1, reference.GetType())
		to = appendText(to, 2, reference.GetValue())
		closeMessage(to, start)
	}
	to = appendText(to, 17, r.GetAttributesJson())
	to = appendText(to, 18, r.GetExtraJson())
	to = appendText(to, 19, r.GetIdentifiedAt())
	to = appendText(to, 20, r.GetParsedAt())
	if r.GetSuppressed() {
		to = append(appendHeader(to, 21, 1), 1)
	}
	return appendText(to, 22, r.GetException())
}

func appendSummary(to []byte, s *ScanSummary) []byte {
	to = appendText(to, 1, s.GetScanType())
	to = appendText(to, 2, s.GetResourceMode())
	for _, parameter := range s.GetParameters() {
		to = append(appendHeader(to, 3, len(parameter)), parameter...)
	}
	to = appendText(to, 4, s.GetState())
	to = appendText(to, 5, s.GetErrorDescription())
	to = appendTime(to, 6, s.GetCreatedAt())
	to = appendTime(to, 7, s.GetStartedAt())
	to = appendTime(to, 8, s.GetFinishedAt())
	to = appendText(to, 9, s.GetRawResultType())
	to = appendText(to, 10, s.GetRawResultFile())
	to = appendNumber(to, 11, s.GetFindings())
	to = appendNumbers(to, 12, s.GetSeverities())
	to = appendNumbers(to, 13, s.GetCategories())
	to = appendTexts(to, 14, s.GetLabels())
	to = appendText(to, 15, s.GetResultsKey())
	to = appendText(to, 16, s.GetOutcome())
	to = appendTexts(to, 17, s.GetExtra())
	return appendText(to, 18, s.GetParentScan())
}

func appendDecision(to []byte, d *Decision) []byte {
	to = appendText(to, 1, d.GetTimeStamp())
	to = appendText(to, 2, d.GetDecisionId())
	to = appendText(to, 3, d.GetMessage())
	to = appendText(to, 4, d.GetEventType())
	to = appendText(to, 5, d.GetConstraintKind())
	to = appendText(to, 6, d.GetConstraintName())
	to = appendText(to, 7, d.GetConstraintAction())
	to = appendText(to, 8, d.GetResourceKind())
	to = appendText(to, 9, d.GetResourceNamespace())
	to = appendText(to, 10, d.GetResourceName())
	to = appendText(to, 11, d.GetInputJson())
	to = appendText(to, 12, d.GetDetailsJson())
	to = appendText(to, 13, d.GetExtraJson())
	return appendTexts(to, 14, d.GetExtra())
}

func appendClosing(to []byte, c *Closing) []byte {
	to = appendNumber(to, 1, c.GetRecords())
	to = appendText(to, 2, c.GetChain())
	to = appendNumber(to, 3, c.GetFindingsTotal())
	to = appendText(to, 4, c.GetFilter())
	return appendNumbers(to, 5, c.GetOutcomes())
}

// headerSize is the length of number and length.
const headerSize = 4 + 8

func appendHeader(to []byte, number uint32, length int) []byte {
	to = binary.BigEndian.AppendUint32(to, number)
	return binary.BigEndian.AppendUint64(to, uint64(length))
}

func appendText[T string | []byte](to []byte, number uint32, value T) []byte {
	if len(value) == 0 {
		return to
	}
	return append(appendHeader(to, number, len(value)), value...)
}

func appendNumber(to []byte, number uint32, value uint64) []byte {
	if value == 0 {
		return to
	}
	return binary.BigEndian.AppendUint64(appendHeader(to, number, 8), value)
}

// openMessage begins a field whose length is known when it is closed.
func openMessage(to []byte, number uint32) ([]byte, int) {
	to = appendHeader(to, number, 0)
	return to, len(to)
}

func closeMessage(to []byte, start int) {
	binary.BigEndian.PutUint64(to[start-8:start], uint64(len(to)-start))
}

func appendTime(to []byte, number uint32, time *timestamppb.Timestamp) []byte {
	if time == nil {
		return to
	}
	to, start := openMessage(to, number)
	to = appendNumber(to, 1, uint64(time.GetSeconds()))
	to = appendNumber(to, 2, uint64(int64(time.GetNanos())))
	closeMessage(to, start)
	return to
}

func appendTexts(to []byte, number uint32, values map[string]string) []byte {
	if len(values) == 0 {
		return to
	}
	var few [16]string
	for _, key := range sortedKeys(few[:0], values) {
		to = appendHeader(to, number, 2*headerSize+len(key)+len(values[key]))
		to = append(appendHeader(to, 1, len(key)), key...)
		to = append(appendHeader(to, 2, len(values[key])), values[key]...)
	}
	return to
}

func appendNumbers(to []byte, number uint32, values map[string]uint64) []byte {
	if len(values) == 0 {
		return to
	}
	var few [16]string
	for _, key := range sortedKeys(few[:0], values) {
		to = appendHeader(to, number, 2*headerSize+len(key)+8)
		to = append(appendHeader(to, 1, len(key)), key...)
		to = binary.BigEndian.AppendUint64(appendHeader(to, 2, 8), values[key])
	}
	return to
}

// sortedKeys appends the keys in order. Maps are small: the caller has room for them without an allocation.
func sortedKeys[V any](to []string, values map[string]V) []string {
	for key := range values {
		to = append(to, key)
	}
	slices.Sort(to)
	return to
}
