// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// KeyClusterName is the key of the further metadata that names the cluster: it becomes the subject of Results.
const KeyClusterName = "clusterName"

// defaultMaxElement is the largest record that receivers take by default.
const defaultMaxElement = 2 << 20

// Source is what records are made of, beside the findings.
type Source struct {
	ClusterID string
	Scan      *executionv1.Scan
	// Extra is the further metadata in force.
	Extra map[string]string
	// MinSeverity is the lowest severity that is sent, such as finding.High; empty: all. Findings with a severity that is none are sent.
	MinSeverity string
	// MaxElement is the size of the largest finding that is taken; 0: 2 MiB.
	MaxElement int
	// NoSummary and NoResults leave these records out.
	NoSummary, NoResults bool
	// Stored says where the results lie; nil: the summary does not say it.
	Stored *Stored
	// Exceptions are those that held for the Scan; nil for none.
	Exceptions *exception.Selection
}

// Stored says where the results of a Scan lie.
type Stored struct{ Findings, Raw Object }

// Object is one object in storage. The zero value is none.
type Object struct {
	Key, ETag string
	Size      int64
}

// Position is a place between two records: behind the one with the sequence. The zero value is the start.
type Position struct {
	Sequence uint64
	// Offset is the byte of findings.json behind the finding of that record.
	Offset int64
	// Refused counts the elements up to there that no record could be made of.
	Refused uint64
	// Outcomes counts the Results up to there by outcome.
	Outcomes map[string]uint64
}

// Rejected is an element of findings.json that no record can be made of.
type Rejected struct {
	Index   int
	EventID string
	Reason  string // TooLarge or Malformed
	Message string
}

// Reader gives the records of one Scan in the order of their sequences. It holds one finding at a time.
type Reader struct {
	source   Source
	stream   *forwardingv1.StreamId
	at       time.Time
	findings *finding.Reader
	mapper   mapper
	lowest   int
	summed   bool // the summary is given
	last     uint64
	total    uint64
	outcomes map[string]uint64
	rejected []Rejected
	refused  uint64
}

// maxRejected bounds the elements that are told one by one.
const maxRejected = 1000

// NewReader returns a Reader of the Scan with the findings.json in findings; nil for a Scan that has none.
func NewReader(source Source, findings io.Reader) *Reader {
	return NewReaderAt(source, findings, Position{})
}

// NewReaderAt returns a Reader that goes on at a position; findings begins at its offset. The elements that were refused before are not told again.
func NewReaderAt(source Source, findings io.Reader, at Position) *Reader {
	if source.MaxElement <= 0 {
		source.MaxElement = defaultMaxElement
	}
	r := &Reader{
		source: source, stream: StreamOf(source.ClusterID, source.Scan), outcomes: map[string]uint64{},
		lowest: rank(strings.ToLower(source.MinSeverity)), at: source.Scan.CreationTimestamp.Time,
	}
	if finished := source.Scan.Status.FinishedAt; !finished.IsZero() {
		r.at = finished.Time
	}
	r.summed, r.last, r.refused = at.Sequence > 0 || source.NoSummary, at.Sequence, at.Refused
	if at.Sequence > 1 {
		r.total = at.Sequence - 1
	}
	maps.Copy(r.outcomes, at.Outcomes)
	if findings != nil {
		limits := finding.Limits{MaxElement: source.MaxElement, PassOver: true}
		r.findings = finding.NewReaderAt(findings, limits, int(r.total), at.Offset)
	}
	r.mapper = mapper{
		subject: source.ClusterID, assessment: string(source.Scan.UID), scanType: source.Scan.Spec.ScanType, extra: map[string]string{},
		namespace: source.Scan.Namespace, held: source.Exceptions, decoder: finding.NewDecoder(0),
	}
	maps.Copy(r.mapper.extra, source.Extra)
	if name := source.Extra[KeyClusterName]; name != "" {
		r.mapper.subject = name
	}
	delete(r.mapper.extra, KeyClusterName)
	r.mapper.extra[extraNamespace], r.mapper.extra[extraScan], r.mapper.extra[extraScanType] = source.Scan.Namespace, source.Scan.Name, source.Scan.Spec.ScanType
	return r
}

// Stream is the stream that the records belong to.
func (r *Reader) Stream() *forwardingv1.StreamId { return r.stream }

// Next gives the summary first, then the Results. After the last finding the error is io.EOF; any other says why findings.json cannot be read on.
func (r *Reader) Next() (sink.Record, error) {
	if !r.summed {
		r.summed = true
		return r.record(1, &forwardingv1.Record{Body: &forwardingv1.Record_ScanSummary{ScanSummary: summaryOf(&r.source)}}), nil
	}
	if r.findings == nil {
		return sink.Record{}, io.EOF
	}
	for {
		element, err := r.findings.Next()
		switch {
		case errors.Is(err, finding.ErrTooLarge):
			r.reject("TooLarge", err.Error())
		case err != nil:
			if errors.Is(err, io.EOF) {
				return sink.Record{}, io.EOF
			}
			return sink.Record{}, fmt.Errorf("read findings.json: %w", err)
		case element[0] != '{':
			r.reject("Malformed", fmt.Sprintf("element %d of findings.json is not an object", r.total))
		default:
			result := r.mapper.result(element)
			r.mapper.except(result, element)
			r.total++
			if position := rank(result.GetSeverity()); r.source.NoResults || position > 0 && position < r.lowest {
				continue
			}
			r.outcomes[result.GetOutcome()]++
			return r.record(r.total+1, &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: result}}), nil
		}
	}
}

// reject counts an element that cannot be sent.
func (r *Reader) reject(reason, message string) {
	if len(r.rejected) < maxRejected {
		index := int(r.total)
		r.rejected = append(r.rejected, Rejected{Index: index, EventID: forwardingv1.EventID(r.stream, r.total+2), Reason: reason, Message: message})
	}
	r.refused++
	r.total++
}

// Rejected tells the elements that could not be sent so far, the first 1,000 of them.
func (r *Reader) Rejected() []Rejected { return r.rejected }

// RejectedCount counts all elements that could not be sent so far.
func (r *Reader) RejectedCount() uint64 { return r.refused }

// Total counts the elements of findings.json so far.
func (r *Reader) Total() uint64 { return r.total }

// Closing is the last record: it tells how many records the far end has accepted, and their chain.
func (r *Reader) Closing(records uint64, chain []byte) sink.Record {
	closing := &forwardingv1.Closing{Records: records, Chain: chain, FindingsTotal: r.total, Outcomes: r.outcomes, Filter: r.filter()}
	return r.record(r.total+2, &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: closing}})
}

// filter says what was left out.
func (r *Reader) filter() string {
	var parts []string
	if r.lowest > rank("informational") {
		parts = append(parts, "minSeverity="+strings.ToUpper(r.source.MinSeverity))
	}
	switch {
	case r.source.NoResults:
		parts = append(parts, "records=Summary")
	case r.source.NoSummary:
		parts = append(parts, "records=Results")
	}
	return strings.Join(parts, ",")
}

// Position is behind the record that was given last. What was refused behind that record is not yet counted there.
func (r *Reader) Position() Position {
	at := Position{Sequence: r.last, Refused: r.refused, Outcomes: r.outcomes}
	if r.findings != nil && r.last > 1 {
		at.Offset = r.findings.Offset()
	}
	return at
}

func (r *Reader) record(sequence uint64, message *forwardingv1.Record) sink.Record {
	r.last = sequence
	message.EventId = forwardingv1.EventID(r.stream, sequence)
	message.Sequence = sequence
	message.ObservedAt = timestamppb.New(r.at)
	message.Digest = forwardingv1.Digest(message)
	message.Schema = forwardingv1.Schema
	return sink.Record{EventID: message.GetEventId(), Sequence: sequence, ObservedAt: r.at, Message: message}
}

// rank orders severities; 0 for what is none.
func rank(severity string) int {
	switch severity {
	case "informational":
		return 1
	case "low":
		return 2
	case "medium":
		return 3
	case "high":
		return 4
	}
	return 0
}
