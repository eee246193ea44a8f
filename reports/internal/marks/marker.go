// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"context"
	"crypto/sha256"
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
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	// every is the time between two looks at the clock and at what was written: a minute is promised.
	every = 15 * time.Second
	// settle is how long is waited for further changes behind one.
	settle    = time.Second
	leaseName = "marks"
	leaseTime = 2 * every
)

// Source knows the exceptions.
type Source interface {
	// Exceptions are those of both kinds; false as long as they are not known.
	Exceptions() ([]exception.Exception, bool)
	// Labels are those of a namespace.
	Labels(namespace string) map[string]string
	// Changed gets a value behind each change; several may share one.
	Changed() <-chan struct{}
}

// Config is what a Marker is made of.
type Config struct {
	Store   *mvcc.Store
	Reports storage.Interface // of kinds.Reports
	Source  Source
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// Marker marks stored reports.
type Marker struct {
	config Config
	clock  clock.WithTicker
	lease  *mvcc.Lease
	known  map[string][sha256.Size]byte // which set of exceptions the reports of a namespace are marked by
	upTo   int64                        // what was written up to here is marked
}

// New makes a Marker.
func New(config Config) *Marker {
	m := &Marker{config: config, clock: config.Clock, known: map[string][sha256.Size]byte{}, lease: config.Store.NewLease(leaseName, leaseTime)}
	if m.clock == nil {
		m.clock = clock.RealClock{}
	}
	return m
}

// Run marks until its context ends.
func (m *Marker) Run(ctx context.Context) error {
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
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.clock.After(settle):
		}
	}
}

// Once marks what is due now.
func (m *Marker) Once(ctx context.Context) error {
	list, known := m.config.Source.Exceptions()
	if !known {
		return nil
	}
	if mine, err := m.lease.Take(ctx); err != nil || !mine {
		return err
	}
	current, err := m.config.Store.Current(ctx)
	if err != nil {
		return err
	}
	p := &pass{Marker: m, matcher: exception.Compile(list, m.clock.Now()), selections: map[scanKey]*exception.Selection{}}
	if p.sums, err = newSums(list, m.clock.Now()); err != nil {
		return err
	}
	written, err := m.written(ctx)
	if err != nil {
		return fmt.Errorf("list the reports: %w", err)
	}
	sums := map[string][sha256.Size]byte{}
	for _, w := range written {
		if _, summed := sums[w.namespace]; !summed {
			if sums[w.namespace], err = p.sums.of(w.namespace, m.config.Source.Labels(w.namespace)); err != nil {
				return err
			}
		}
		if w.revision <= m.upTo && m.known[w.namespace] == sums[w.namespace] {
			continue
		}
		if err := p.mark(ctx, w.key); err != nil {
			return err
		}
	}
	m.known, m.upTo = sums, current
	return nil
}

// written is a report, and when it was.
type written struct {
	key, namespace string
	revision       int64
}

// written are the reports of our hook.
func (m *Marker) written(ctx context.Context) (all []written, err error) {
	err = m.config.Store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT o."key", o.ns, o.rv FROM labels l JOIN objects o ON o.id = l.object WHERE l.k = ? AND l.v = ? AND o.kind = ?`,
			policyreport.LabelManagedBy, managedBy, kinds.ReportNumber)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var w written
			if err := found.Scan(&w.key, &w.namespace, &w.revision); err != nil {
				return err
			}
			all = append(all, w)
		}
		return found.Err()
	})
	return all, err
}

// pass is one round over reports, by one set of exceptions.
type pass struct {
	*Marker

	matcher    *exception.Matcher
	sums       *sums
	selections map[scanKey]*exception.Selection
}

// mark marks one report. A report that cannot be marked does not hold up the others; a database that is away does.
func (p *pass) mark(ctx context.Context, key string) error {
	err := p.markReport(ctx, key)
	switch {
	case err == nil, storage.IsNotFound(err), errors.Is(err, errSame):
		return nil
	case ctx.Err() != nil, apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err):
		return fmt.Errorf("mark %s: %w", key, err)
	}
	klog.FromContext(ctx).Error(err, "A report cannot be marked", "key", key)
	return nil
}

// errSame ends the update of a report that is marked already.
var errSame = errors.New("the report is marked already")

func (p *pass) markReport(ctx context.Context, key string) error {
	report := &kinds.Report{}
	if err := p.config.Reports.Get(ctx, key, storage.GetOptions{}, report); err != nil {
		return err
	}
	if !p.remark(report) {
		return nil
	}
	return p.config.Reports.GuaranteedUpdate(ctx, key, &kinds.Report{}, false, nil, p.update, nil)
}

// update marks what is stored now, which may be another state than the one that was looked at.
func (p *pass) update(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	if current, ok := obj.(*kinds.Report); !ok || !p.remark(current) {
		return nil, nil, errSame
	}
	return obj, nil, nil
}

func (p *pass) remark(report *kinds.Report) bool {
	scan, ours := scanOf(report)
	return ours && remark(report, p.selection(scan))
}

// selection are the exceptions that hold for a Scan.
func (p *pass) selection(scan scanKey) *exception.Selection {
	held, ok := p.selections[scan]
	if !ok {
		held = p.matcher.For(exception.Scan{
			Namespace: scan.namespace, NamespaceLabels: p.config.Source.Labels(scan.namespace), Name: scan.name, ScanType: scan.scanType, Target: scan.target,
		})
		p.selections[scan] = held
	}
	return held
}
