// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	// pageSize is how many reports one question asks for, and how many changes are read at a time.
	pageSize = 500
)

// held is what the replica that has the lease knows.
type held struct {
	*Marker

	cursor *mvcc.Cursor    // behind which nothing is marked
	more   <-chan struct{} // closed when the cursor may have more
	begun  bool            // all reports were looked at once
	until  time.Time       // when all of them are looked at again
	// known is by which set of exceptions the reports of a namespace are marked.
	known map[string][sha256.Size]byte
	// left are changed reports that could not be marked yet.
	left []written

	sums       *sums // of the exceptions that matcher has; nil where they have to be read again
	matcher    *exception.Matcher
	selections map[scanKey]*exception.Selection
}

// newHeld begins with nothing marked. What is written from now on comes by the cursor.
func (m *Marker) newHeld(ctx context.Context) (*held, error) {
	current, err := m.config.Store.Current(ctx)
	if err != nil {
		return nil, err
	}
	return &held{
		Marker: m, cursor: m.config.Store.NewCursor(current), until: m.clock.Now().Add(again), known: map[string][sha256.Size]byte{},
	}, nil
}

// hasEnded says that the database was away: changes may be missing.
func (h *held) hasEnded() bool {
	select {
	case <-h.cursor.Ended():
		return true
	default:
		return false
	}
}

// written is a report that may have to be marked.
type written struct {
	kind           int
	key, namespace string
}

func (w *written) name() string { return w.key[strings.LastIndexByte(w.key, '/')+1:] }

// mark marks what is due.
func (h *held) mark(ctx context.Context, list []exception.Exception) error {
	if err := h.compile(list); err != nil {
		return err
	}
	if err := h.namespaces(ctx); err != nil {
		return err
	}
	if !h.begun {
		if err := h.all(ctx, "", nil); err != nil {
			return err
		}
		h.begun = true
	}
	return h.changes(ctx)
}

// compile takes the exceptions that hold now, where others do than before.
func (h *held) compile(list []exception.Exception) error {
	now := h.clock.Now()
	if h.sums != nil && (h.sums.until.IsZero() || now.Before(h.sums.until)) {
		return nil
	}
	sums, err := newSums(list, now)
	if err != nil {
		return err
	}
	h.sums, h.matcher, h.selections = sums, exception.Compile(list, now), map[scanKey]*exception.Selection{}
	return nil
}

// sum is that of the exceptions that hold in a namespace now.
func (h *held) sum(namespace string) ([sha256.Size]byte, error) {
	return h.sums.of(namespace, h.config.Source.Labels(namespace))
}

// namespaces marks the reports of namespaces in which other exceptions hold than those that they are marked by.
func (h *held) namespaces(ctx context.Context) error {
	names := make([]string, 0, len(h.known))
	for namespace := range h.known {
		names = append(names, namespace)
	}
	slices.Sort(names)
	for _, namespace := range names {
		sum, err := h.sum(namespace)
		if err != nil {
			return err
		}
		if sum == h.known[namespace] {
			continue
		}
		if err := h.all(ctx, ` AND o.ns = ?`, []any{namespace}); err != nil {
			return err
		}
		h.known[namespace] = sum
	}
	return nil
}

// reportsOfHook and vulnerabilityReports are what can be marked, as parts of a question.
const (
	reportsOfHook        = `FROM labels l JOIN objects o ON o.id = l.object WHERE l.k = ? AND l.v = ? AND o.kind = ?`
	vulnerabilityReports = `FROM objects o WHERE o.kind = ?`
)

// all marks all reports that meet a condition, page by page.
func (h *held) all(ctx context.Context, condition string, args []any) error {
	for _, source := range []struct {
		from string
		args []any
	}{
		{reportsOfHook, []any{policyreport.LabelManagedBy, managedBy, kinds.ReportNumber}},
		{vulnerabilityReports, []any{kinds.VulnerabilityReportNumber}},
	} {
		question := `SELECT o.id, o.kind, o."key", o.ns ` + source.from + condition + ` AND o.id > ? ORDER BY o.id LIMIT ?`
		asked := append(slices.Clone(source.args), args...)
		for after, more := int64(0), true; more; {
			page, last, err := h.page(ctx, question, append(slices.Clone(asked), after, pageSize)...)
			if err != nil {
				return fmt.Errorf("list the reports: %w", err)
			}
			if err := h.each(ctx, page); err != nil {
				return err
			}
			after, more = last, len(page) == pageSize
		}
	}
	return nil
}

// page are some reports, and the number of the last one.
func (h *held) page(ctx context.Context, question string, args ...any) (page []written, last int64, err error) {
	err = h.config.Store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, question, args...)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var w written
			if err := found.Scan(&last, &w.kind, &w.key, &w.namespace); err != nil {
				return err
			}
			page = append(page, w)
		}
		return found.Err()
	})
	return page, last, err
}

// each marks reports. A namespace that was not known is from now on.
func (h *held) each(ctx context.Context, page []written) error {
	for i := range page {
		w := &page[i]
		if err := h.markOne(ctx, w); err != nil {
			return err
		}
		if _, known := h.known[w.namespace]; known {
			continue
		}
		sum, err := h.sum(w.namespace)
		if err != nil {
			return err
		}
		h.known[w.namespace] = sum
	}
	return nil
}

// changes marks the reports that were written since, by anybody.
func (h *held) changes(ctx context.Context) error {
	for {
		if err := h.each(ctx, h.left); err != nil {
			return err
		}
		h.left = h.left[:0]
		events, more, err := h.cursor.Next(ctx, pageSize)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			h.more = more
			return nil
		}
		for i := range events {
			if w, ok := writtenBy(&events[i]); ok && !slices.Contains(h.left, w) {
				h.left = append(h.left, w)
			}
		}
	}
}

// prefixes of the keys of what can be marked.
var prefixes = map[string]int{
	"/" + kinds.Reports.Resource + "/":              kinds.ReportNumber,
	"/" + kinds.VulnerabilityReports.Resource + "/": kinds.VulnerabilityReportNumber,
}

// writtenBy is the report that a change has written.
func writtenBy(event *mvcc.Event) (w written, ok bool) {
	if event.After == nil {
		return w, false
	}
	for prefix, kind := range prefixes {
		if rest, of := strings.CutPrefix(event.Key, prefix); of {
			namespace, _, namespaced := strings.Cut(rest, "/")
			return written{kind, event.Key, namespace}, namespaced
		}
	}
	return w, false
}
