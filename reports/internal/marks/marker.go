// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

const (
	// every is the time between two looks at the lease and at the clock.
	every = 15 * time.Second
	// settle is how long is waited for further changes behind one.
	settle    = time.Second
	leaseName = "marks"
	leaseTime = 2 * every
	// again is how often all reports are looked at without a reason. It mends what nobody knows of.
	again = 6 * time.Hour
)

// Source knows the exceptions.
type Source interface {
	// Exceptions are those of both kinds; false as long as they are not known.
	Exceptions() ([]exception.Exception, bool)
	// Labels are those of a namespace.
	Labels(namespace string) map[string]string
	// Changed gets a value behind each change of an exception or of a namespace; several may share one.
	Changed() <-chan struct{}
}

// Findings marks the findings of VulnerabilityReports.
type Findings interface {
	Mark(ctx context.Context, namespace, name string, held *exception.Selection) error
}

// Config is what a Marker is made of.
type Config struct {
	Store    *mvcc.Store
	Reports  storage.Interface // of kinds.Reports
	Findings Findings
	Source   Source
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// Marker marks stored reports.
type Marker struct {
	config Config
	clock  clock.WithTicker
	lease  *mvcc.Lease
	// held is what is known while this replica has the lease; nil without it.
	held *held
}

// New makes a Marker.
func New(config Config) *Marker {
	m := &Marker{config: config, clock: config.Clock, lease: config.Store.NewLease(leaseName, leaseTime)}
	if m.clock == nil {
		m.clock = clock.RealClock{}
	}
	return m
}

// Run marks until its context ends.
func (m *Marker) Run(ctx context.Context) error {
	defer m.release()
	ticker := m.clock.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := m.Once(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reports are not all marked; the next look goes on", "after", every)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			continue
		case <-m.config.Source.Changed():
			m.look()
		case <-m.writes():
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.clock.After(settle):
		}
	}
}

// writes is closed when a report may have been written; nil where that is not for this replica.
func (m *Marker) writes() <-chan struct{} {
	if m.held == nil {
		return nil
	}
	return m.held.more
}

// look has the exceptions read again.
func (m *Marker) look() {
	if m.held != nil {
		m.held.sums = nil
	}
}

// release forgets all that is known: another replica marks from now on.
func (m *Marker) release() {
	if m.held != nil {
		m.held.cursor.Close()
		m.held = nil
	}
}

// Once marks what is due now: what was written since the last time, and the namespaces in which other exceptions hold.
func (m *Marker) Once(ctx context.Context) error {
	select {
	case <-m.config.Source.Changed():
		m.look()
	default:
	}
	list, known := m.config.Source.Exceptions()
	if !known {
		return nil
	}
	mine, err := m.lease.Take(ctx)
	if err != nil {
		return err
	}
	if !mine {
		m.release()
		return nil
	}
	if m.held != nil && !m.clock.Now().Before(m.held.until) {
		m.release()
	}
	if m.held == nil {
		if m.held, err = m.newHeld(ctx); err != nil {
			return err
		}
	}
	err = m.held.mark(ctx, list)
	if errors.Is(err, mvcc.ErrCompacted) || m.held.hasEnded() {
		m.release() // changes are missing: all reports are looked at
	}
	return err
}

// markOne marks one report. A report that cannot be marked does not hold up the others; a database that is away does.
func (h *held) markOne(ctx context.Context, w *written) error {
	var err error
	if w.kind == kinds.VulnerabilityReportNumber {
		err = h.config.Findings.Mark(ctx, w.namespace, w.name(), h.selection(scanKey{namespace: w.namespace}))
	} else {
		err = h.markReport(ctx, w.key)
	}
	switch {
	case err == nil, storage.IsNotFound(err), errors.Is(err, errSame):
		return nil
	case ctx.Err() != nil, apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err),
		errors.Is(err, mvcc.ErrUnavailable), errors.Is(err, mvcc.ErrBusy), errors.Is(err, mvcc.ErrNoSpace), errors.Is(err, mvcc.ErrQueueFull),
		errors.Is(err, mvcc.ErrClosed), errors.Is(err, mvcc.ErrFrozen):
		return fmt.Errorf("mark %s: %w", w.key, err)
	}
	klog.FromContext(ctx).Error(err, "A report cannot be marked", "key", w.key)
	return nil
}

// errSame ends the update of a report that is marked already.
var errSame = errors.New("the report is marked already")

func (h *held) markReport(ctx context.Context, key string) error {
	report := &kinds.Report{}
	if err := h.config.Reports.Get(ctx, key, storage.GetOptions{}, report); err != nil {
		return err
	}
	if !h.remark(report) {
		return nil
	}
	return h.config.Reports.GuaranteedUpdate(ctx, key, &kinds.Report{}, false, nil, h.update, nil)
}

// update marks what is stored now, which may be another state than the one that was looked at.
func (h *held) update(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	if current, ok := obj.(*kinds.Report); !ok || !h.remark(current) {
		return nil, nil, errSame
	}
	return obj, nil, nil
}

func (h *held) remark(report *kinds.Report) bool {
	if report.Labels[policyreport.LabelManagedBy] != managedBy {
		return false
	}
	scan, ours := scanOf(report)
	return ours && remark(report, h.selection(scan))
}

// maxSelections bounds the memory of selections.
const maxSelections = 1000

// selection are the exceptions that hold for a Scan.
func (h *held) selection(scan scanKey) *exception.Selection {
	scan = h.sums.asks.of(scan)
	of, ok := h.selections[scan]
	if !ok {
		of = h.matcher.For(exception.Scan{
			Namespace: scan.namespace, NamespaceLabels: h.config.Source.Labels(scan.namespace), Name: scan.name, ScanType: scan.scanType, Target: scan.target,
		})
		if len(h.selections) >= maxSelections {
			clear(h.selections)
		}
		h.selections[scan] = of
	}
	return of
}
