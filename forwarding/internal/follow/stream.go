// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/forwarding/internal/breaker"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/results"
	"github.com/scanyard/scanyard/forwarding/internal/scans"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	// missingWait is when results that are not there are looked for again, unreadWait when those are that cannot be read.
	missingWait = 10 * time.Minute
	unreadWait  = 5 * time.Second
	// urlAge is how old a URL may be when a download begins: it ends after 15 minutes.
	urlAge = 5 * time.Minute
	// askAbove is the number of records from which on a far end is asked what it holds before a stream goes on.
	askAbove = 1000
)

// errFailed ends a stream at the first failure of its sink: only the prober tries that sink again.
var errFailed = errors.New("the sink has failed")

// stream sends one Scan to one sink, until all is there, something fails, or others want their turn.
func (f *Follower) stream(ctx context.Context, task turns.Task) {
	uid := types.UID(task.UID)
	f.mutex.Lock()
	k, s := f.scans[uid], f.sinks[task.Sink]
	var due plan.Due
	ready := k != nil && s != nil
	if ready {
		due, ready = k.due[task.Sink]
	}
	if ready {
		p := k.progress[task.Sink]
		p.Running = true
		k.progress[task.Sink] = p
	}
	f.mutex.Unlock()
	if ready {
		one := &transfer{f: f, task: task, uid: uid, key: k.key, far: s, due: due, entry: due.Entry}
		err := one.run(ctx)
		f.ended(ctx, one, err)
	}
	f.mutex.Lock()
	f.turns.Done(task)
	f.idle(ctx, task.Sink)
	f.mutex.Unlock()
	if k != nil {
		f.lookAt(ctx, k.key)
	}
	f.wake()
}

// transfer is one stream.
type transfer struct {
	f     *Follower
	task  turns.Task
	uid   types.UID
	key   types.NamespacedName
	far   *far
	due   plan.Due
	entry executionv1.SinkProgress
	// proves says that the far end has proved that it keeps everything.
	proves bool
}

// ended notes how a stream has ended.
func (f *Follower) ended(ctx context.Context, t *transfer, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	k := f.scans[t.uid]
	if k == nil {
		return
	}
	p := k.progress[t.task.Sink]
	before := p.Failure
	p.Running, p.Failure, p.Entry = false, nil, &t.entry
	now := f.o.Clock.Now()
	switch failure, _ := errors.AsType[*sink.Error](err); {
	case err == nil:
		t.far.proving = t.far.proving || t.proves
		f.o.Metrics.completed(t.task.Sink, now.Sub(k.ended))
	case errors.Is(err, scans.ErrStopped), errors.Is(err, errChanged), ctx.Err() != nil:
	case failure == nil || ofScan(failure.Reason):
		if failure == nil {
			failure = &sink.Error{Class: sink.Transport, Reason: plan.ResultsUnread, Message: err.Error()}
		}
		if before == nil || before.Reason != failure.Reason {
			p.Since = now
		}
		p.Failure, p.NextTry = failure, nextTry(failure, now)
	default:
		if f.sinks[t.far.id] == t.far {
			f.fails(ctx, t.far, failure)
		}
	}
	k.progress[t.task.Sink] = p
}

// ofScan tells whether a failure belongs to one Scan and not to the sink.
func ofScan(reason sink.Reason) bool {
	return slices.Contains([]sink.Reason{plan.ResultsMissing, plan.ResultsUnread, sink.ResultsChanged, sink.Incomplete}, reason)
}

// nextTry is when a Scan is tried again; zero: not in this run.
func nextTry(failure *sink.Error, now time.Time) time.Time {
	if failure.Reason == sink.ResultsChanged {
		return time.Time{}
	}
	if failure.Reason == plan.ResultsMissing || failure.Reason == sink.Incomplete {
		return now.Add(missingWait)
	}
	return now.Add(max(unreadWait, failure.RetryAfter))
}

// run sends.
func (t *transfer) run(ctx context.Context) error {
	scan := &executionv1.Scan{}
	if err := t.f.o.Client.Get(ctx, t.key, scan); err != nil {
		return unread(err)
	}
	if scan.UID != t.uid {
		return scans.ErrStopped
	}
	files, err := t.find(ctx, scan)
	if err != nil {
		return err
	}
	if t.entry.ETag != "" && t.entry.ETag != files.findings.ETag {
		t.entry = plan.Fresh(scan, &t.due.Sink)
	}
	t.entry.ETag = files.findings.ETag
	c, err := t.f.use(t.far)
	if err != nil {
		return err
	}
	defer t.f.release(c)
	return t.send(ctx, scan, files, c)
}

func (t *transfer) send(ctx context.Context, scan *executionv1.Scan, files files, c *connection) error {
	source := t.source(scan, files)
	var err error
	if source.Exceptions, err = t.exceptions(ctx, files); err != nil {
		return err
	}
	t.f.mutex.Lock()
	share := t.far.health.Share
	t.f.mutex.Unlock()
	from, err := cursorOf(&t.entry)
	if err != nil {
		t.entry = plan.Fresh(scan, &t.due.Sink)
		t.entry.ETag, from = files.findings.ETag, scans.Cursor{}
	}
	sending := scans.Sending{
		Sink: c.sink, Limits: limits(t.far.target.MaxRecords, t.far.target.MaxBytes, share), From: from, Guard: t.far.guard,
		Retry: scans.Retry{Bounds: t.far.target.Retry, Wait: func(context.Context, time.Duration) error { return errFailed }},
		Open: func(ctx context.Context, at mapping.Position) (*mapping.Reader, io.Closer, error) {
			return t.open(ctx, scan, source, files, at)
		},
		Progress: func(cursor scans.Cursor, bytes int) bool { return t.progress(ctx, cursor, bytes) },
	}
	if from.Sequence > 0 && scan.Status.Findings.Count != nil && *scan.Status.Findings.Count > askAbove {
		sending.Stream = mapping.StreamOf(t.f.o.ClusterID, scan)
	}
	report, err := sending.Send(ctx)
	t.note(report.Cursor)
	t.f.o.Metrics.sent(t.task, report, err)
	if err != nil {
		return err
	}
	t.f.mutex.Lock()
	t.f.delivered(ctx, t.far)
	t.f.mutex.Unlock()
	t.entry.CompletedAt = new(metav1.NewTime(t.f.o.Clock.Now().Truncate(time.Second)))
	t.entry.Verdict = executionv1.SinkVerdict(report.Verdict)
	t.proves = report.Verdict == scans.Complete
	return nil
}

// limits are those of the settings, and less where the far end has asked for less.
func limits(records, bytes int, share float64) scans.Limits {
	if share <= 0 || share >= 1 {
		return scans.Limits{MaxRecords: records, MaxBytes: bytes}
	}
	const defaultRecords = 500
	if records <= 0 {
		records = defaultRecords
	}
	return scans.Limits{MaxRecords: max(1, int(float64(records)*share)), MaxBytes: bytes}
}

// source is what records are made of.
func (t *transfer) source(scan *executionv1.Scan, files files) mapping.Source {
	s := &t.due.Sink.Sink
	without := func(kind settingsv1alpha2.RecordKind) bool {
		return len(s.Records) > 0 && !slices.Contains(s.Records, kind)
	}
	source := mapping.Source{
		ClusterID: t.f.o.ClusterID, Scan: scan, Extra: t.due.Sink.Metadata, MinSeverity: string(s.MinSeverity),
		NoSummary: without(settingsv1alpha2.RecordSummary), NoResults: without(settingsv1alpha2.RecordResults),
	}
	if t.wantsReference() {
		source.Stored = &mapping.Stored{Findings: object(files.findings), Raw: object(files.raw)}
	}
	return source
}

// wantsReference tells whether the summary says where the results lie.
func (t *transfer) wantsReference() bool {
	return slices.Contains(t.due.Sink.Sink.Records, settingsv1alpha2.RecordRawReference)
}

func object(at apiresults.URLAnswer) mapping.Object {
	if at.URL == "" {
		return mapping.Object{}
	}
	return mapping.Object{Key: results.KeyOf(at), ETag: at.ETag, Size: at.Size}
}

// files are where the results lie; those without a URL are not there. Asked is when that was asked.
type files struct {
	findings, raw, exceptions apiresults.URLAnswer
	asked                     time.Time
}

// find asks the operator for the files that are needed. A Scan that is Errored may have none.
func (t *transfer) find(ctx context.Context, scan *executionv1.Scan) (files, error) {
	found := files{asked: t.f.o.Clock.Now()}
	var err error
	if found.findings, err = t.ask(ctx, scan, apiresults.FileFindings); err != nil {
		return found, err
	}
	if found.findings.URL == "" && scan.Status.State != executionv1.ScanStateErrored {
		return found, &sink.Error{Class: sink.Refused, Reason: plan.ResultsMissing, Message: "the findings are not in storage"}
	}
	if scan.Status.Findings.Excepted != nil { // exceptions held for the Scan
		if found.exceptions, err = t.ask(ctx, scan, apiresults.FileExceptions); err != nil {
			return found, err
		}
	}
	if t.wantsReference() {
		found.raw, err = t.ask(ctx, scan, apiresults.FileRaw)
	}
	return found, err
}

// maxExceptions is how many bytes the exceptions of a Scan may have.
const maxExceptions = 64 << 20

// exceptions are those that held for the Scan when the last of its pods began; nil for none.
func (t *transfer) exceptions(ctx context.Context, files files) (held *exception.Selection, err error) {
	if files.exceptions.URL == "" {
		return nil, nil //nolint:nilnil // none held
	}
	body, err := t.f.o.Results.Read(ctx, files.exceptions, 0)
	if errors.Is(err, results.ErrChanged) {
		return nil, scans.ErrStopped
	}
	if err != nil {
		return nil, unread(err)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxExceptions))
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, unread(err)
	}
	if held, err = exception.TakeOver(text); err != nil {
		return nil, unread(err)
	}
	return held, nil
}

// ask gives an answer without a URL for a file that is not there.
func (t *transfer) ask(ctx context.Context, scan *executionv1.Scan, file string) (apiresults.URLAnswer, error) {
	answer, err := t.f.o.Results.Find(ctx, results.Scan{Namespace: scan.Namespace, Name: scan.Name, UID: string(scan.UID)}, file)
	if err == nil {
		return answer, nil
	}
	refused, isRefused := errors.AsType[*results.RefusedError](err)
	switch {
	case !isRefused:
		return answer, unread(err)
	case refused.Reason == apiresults.ReasonResultsMissing:
		return apiresults.URLAnswer{}, nil
	case refused.Reason == apiresults.ReasonUIDMismatch, refused.Reason == apiresults.ReasonScanNotFound:
		return answer, scans.ErrStopped // its deletion is on its way to us
	}
	failure := unread(err)
	failure.RetryAfter = refused.RetryAfter
	return answer, failure
}

func unread(err error) *sink.Error {
	return &sink.Error{Class: sink.Transport, Reason: plan.ResultsUnread, Message: "the results cannot be read: " + err.Error()}
}

// open reads the findings from a position on. URLs end after some minutes: one that is old is asked for again.
func (t *transfer) open(
	ctx context.Context, scan *executionv1.Scan, source mapping.Source, known files, at mapping.Position,
) (*mapping.Reader, io.Closer, error) {
	if known.findings.URL == "" {
		return mapping.NewReaderAt(source, nil, at), io.NopCloser(nil), nil
	}
	where := known.findings
	if t.f.o.Clock.Since(known.asked) > urlAge {
		var err error
		if where, err = t.ask(ctx, scan, apiresults.FileFindings); err != nil {
			return nil, nil, err
		}
	}
	if where.ETag != known.findings.ETag {
		return nil, nil, scans.ErrStopped // other results: the next look begins anew
	}
	body, err := t.f.downloads.Read(ctx, string(t.uid)+" "+where.ETag, at.Offset, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		return t.f.o.Results.Read(ctx, where, offset)
	})
	if errors.Is(err, results.ErrChanged) {
		return nil, nil, scans.ErrStopped
	}
	if err != nil {
		return nil, nil, unread(err)
	}
	return mapping.NewReaderAt(source, body, at), body, nil
}

// progress notes a batch that was acknowledged; false: others want their turn, or something has changed.
func (t *transfer) progress(ctx context.Context, cursor scans.Cursor, bytes int) bool {
	before := t.entry.Records
	t.note(cursor)
	f := t.f
	f.o.Metrics.bytes.WithLabelValues(t.task.Sink).Add(float64(bytes))
	f.mutex.Lock()
	k := f.scans[t.uid]
	goesOn := k != nil && f.sinks[t.far.id] == t.far && ctx.Err() == nil
	var wait time.Duration
	if goesOn {
		entry := t.entry
		p := k.progress[t.task.Sink]
		p.Entry = &entry
		k.progress[t.task.Sink] = p
		f.delivered(ctx, t.far)
		wait = t.far.pace.wait(int(max(t.entry.Records-before, 0)))
	}
	makesRoom := f.turns.Spent(t.task, int64(bytes))
	f.mutex.Unlock()
	if wait > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-f.o.Clock.After(wait):
		}
	}
	return goesOn && !makesRoom
}

// note writes a cursor into the entry.
func (t *transfer) note(cursor scans.Cursor) {
	e := &t.entry
	e.Sequence, e.Offset = int64(cursor.Sequence), cursor.Offset
	t.f.noteRefusals(t.task.Sink, e.DeadLetters, int64(cursor.DeadLetters()), t.f.o.Clock.Now())
	e.DeadLetters = int64(cursor.DeadLetters())
	e.Records = int64(cursor.Accepted) + e.DeadLetters
	e.Chain = hex.EncodeToString(cursor.Chain)
	e.Outcomes = nil
	for outcome, n := range cursor.Outcomes {
		if e.Outcomes == nil {
			e.Outcomes = map[string]int64{}
		}
		e.Outcomes[outcome] = int64(n)
	}
}

// cursorOf reads the cursor from an entry.
func cursorOf(e *executionv1.SinkProgress) (scans.Cursor, error) {
	chain, err := hex.DecodeString(e.Chain)
	if err != nil {
		return scans.Cursor{}, err
	}
	c := scans.Cursor{Accepted: uint64(max(e.Records-e.DeadLetters, 0)), Rejected: uint64(max(e.DeadLetters, 0))}
	c.Sequence, c.Offset = uint64(max(e.Sequence, 0)), max(e.Offset, 0)
	if len(chain) > 0 {
		c.Chain = chain
	}
	if len(e.Outcomes) > 0 {
		c.Outcomes = map[string]uint64{}
		for outcome, n := range e.Outcomes {
			c.Outcomes[outcome] = uint64(max(n, 0))
		}
	}
	return c, nil
}

// guard sees when the far end refuses everything. All streams of a sink share it.
type guard struct {
	mutex   sync.Mutex
	breaker breaker.Breaker
	refused uint64
	newest  bool
}

// Note takes what became of a batch, and is true where the far end refuses everything by now.
func (g *guard) Note(accepted []bool) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, ok := range accepted {
		if ok {
			g.breaker.Accepted(1)
			continue
		}
		g.refused++
		if g.breaker.Refused(g.refused) {
			g.breaker.TakeRun()
		}
	}
	return g.breaker.Open
}

// IsOpen is true while the far end refuses everything; the oldest and the newest record of a batch ask in turn.
func (g *guard) IsOpen() (open, newest bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.newest = !g.newest
	return g.breaker.Open, g.newest
}
