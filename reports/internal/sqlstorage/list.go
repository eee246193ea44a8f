// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/storage"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

const (
	chunk       = 500    // rows of one read
	maxExamined = 10_000 // rows of one request with a limit

	// maxPageBytes bounds what one request with a limit selects, in bytes of JSON: a page ends there, with a continue token.
	maxPageBytes = 32 << 20
)

func badVersion(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
}

// listing is a list while it is read.
type listing struct {
	s         *Storage
	key       string
	opts      storage.ListOptions
	items     reflect.Value // of the list that is filled
	newItem   func() runtime.Object
	next      mvcc.Range
	paging    bool
	examined  int64
	bytes     int64 // of what was selected
	estimated bool  // that it is not too large
	remaining int64 // states in the range behind those of former pages, if counted
}

// GetList implements storage.Interface.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	l, err := s.newListing(ctx, key, opts, listObj)
	if err != nil {
		return err
	}
	wanted := int64(0)
	if opts.Predicate.Continue == "" {
		if wanted, err = s.minimum(opts.ResourceVersion); err != nil {
			return err
		}
	}
	if err := s.awaitFresh(ctx, max(wanted, l.next.At)); err != nil {
		return err
	}
	last, more, err := l.read(ctx)
	if err != nil {
		return err
	}
	if l.items.IsNil() {
		l.items.Set(reflect.MakeSlice(l.items.Type(), 0, 0))
	}
	// The library takes it that a page has as many items as the limit says. One that is large ends earlier.
	counted := l.remaining - int64(l.items.Len()) + opts.Predicate.Limit
	token, remaining, err := storage.PrepareContinueToken(last, key, l.next.At, counted, more, opts)
	if err != nil {
		return err
	}
	return s.versioner.UpdateList(listObj, uint64(l.next.At), token, remaining)
}

func (s *Storage) newListing(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) (*listing, error) {
	pointer, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return nil, err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err != nil || items.Kind() != reflect.Slice {
		return nil, fmt.Errorf("list: the items must be a slice: %w", err)
	}
	at, from, err := storage.ValidateListOptions(key, s.versioner, opts)
	if err != nil {
		return nil, err
	}
	l := &listing{s: s, key: key, opts: opts, items: items, newItem: newItemFunc(listObj, items), paging: opts.Predicate.Limit > 0}
	l.next = mvcc.Range{At: at, Limit: chunk, HeadOnly: HeadOnly(ctx), Narrow: s.narrow(&opts.Predicate)}
	l.next.Start, l.next.End = s.bounds(key, opts.Recursive)
	if from != "" {
		// A token names a key to begin with or, with a zero byte, to begin behind. It cannot lead out of the caller's range.
		l.next.Start, l.next.After = strings.CutSuffix(from, "\x00")
		if !storable(l.next.Start) || !strings.HasPrefix(l.next.Start, key) {
			return nil, apierrors.NewBadRequest("invalid continue token: the key is not valid")
		}
	}
	if l.paging {
		l.next.Limit = int(min(chunk, opts.Predicate.Limit))
	}
	return l, nil
}

func newItemFunc(listObj runtime.Object, items reflect.Value) func() runtime.Object {
	if list, ok := listObj.(*unstructured.UnstructuredList); ok {
		if version := list.GetAPIVersion(); version != "" {
			return func() runtime.Object {
				return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version}}
			}
		}
	}
	return func() runtime.Object { return reflect.New(items.Type().Elem()).Interface().(runtime.Object) }
}

// read fills the list, chunk by chunk, each in a snapshot of its own as of the same revision. It returns the last key
// that was examined and whether there is more behind it.
//
//nolint:gocognit // one loop over chunks, with an end for each reason to stop
func (l *listing) read(ctx context.Context) (last string, more bool, err error) {
	from := l.next.Start
	if l.next.After {
		from += "\x00"
	}
	for {
		l.next.Count = l.paging && l.examined == 0 && l.opts.Predicate.Empty()
		page, err := l.s.store.Range(ctx, l.next)
		if errors.Is(err, mvcc.ErrCompacted) && l.opts.Predicate.Continue != "" {
			return "", false, expiredContinue(from, l.key)
		}
		if err != nil {
			return "", false, StatusOf(err)
		}
		if l.next.At > page.Current {
			return "", false, storage.NewTooLargeResourceVersionError(uint64(l.next.At), uint64(page.Current), retryTooLarge)
		}
		l.next.At = page.Revision
		if l.next.Count {
			l.remaining = page.Count
		}
		full, examined, err := l.add(ctx, page)
		if examined != "" {
			last = examined
		}
		if err != nil || full {
			return last, full, err
		}
		if !page.More || l.ends() {
			return last, page.More, nil
		}
		if err := l.checkBytes(ctx); err != nil {
			return "", false, err
		}
		l.next.Start, l.next.After = last, true
		l.next.Limit = min(chunk, 2*l.next.Limit) // a selector drops what was read: fewer, larger reads
	}
}

// ends tells that a page is full, or has taken as much work or memory as one may.
func (l *listing) ends() bool {
	return l.paging && (int64(l.items.Len()) >= l.opts.Predicate.Limit || l.examined >= maxExamined || l.bytes > min(maxPageBytes, l.s.options.MaxListBytes))
}

// add appends what the predicate selects. It is full when the limit was reached before the end of the page.
func (l *listing) add(ctx context.Context, page *mvcc.Page) (full bool, last string, err error) {
	for i := range page.Items {
		if l.paging && int64(l.items.Len()) >= l.opts.Predicate.Limit {
			return true, last, nil
		}
		if ctx.Err() != nil {
			return false, last, storage.NewTimeoutError(l.key, "request did not complete within requested timeout")
		}
		item := &page.Items[i]
		last = item.Key
		l.examined++
		obj, err := l.s.decodeListed(&item.Value, l.newItem())
		if err != nil {
			return false, last, err
		}
		// A predicate that cannot look at an object does not select it.
		if matched, err := l.opts.Predicate.Matches(obj); err == nil && matched {
			l.items.Set(reflect.Append(l.items, reflect.ValueOf(obj).Elem()))
			l.bytes += int64(len(item.Head) + len(item.Payload))
		}
		page.Items[i] = mvcc.Item{} // long lists take seconds to decode
	}
	return false, last, nil
}

// decodeListed is as decode, but marks an object whose payload is damaged, so that it does not hide the others.
func (s *Storage) decodeListed(value *mvcc.Value, into runtime.Object) (runtime.Object, error) {
	obj, err := s.decode(value, into)
	if err != nil || !value.Damaged {
		return obj, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{DamagedAnnotation: "true"}
	maps.Copy(annotations, accessor.GetAnnotations())
	annotations[DamagedAnnotation] = "true"
	accessor.SetAnnotations(annotations)
	return obj, nil
}

// checkBytes refuses a list without a limit that is too large: by an estimate once it turns out to be longer than one read,
// and in the end by what was read, since a state as of a former revision may have been larger.
func (l *listing) checkBytes(ctx context.Context) error {
	if l.paging || l.next.HeadOnly {
		return nil
	}
	bytes := l.bytes
	if !l.estimated {
		stats, err := l.s.store.Stats(ctx, mvcc.Range{Start: l.key, End: l.next.End, Narrow: l.next.Narrow})
		if err != nil {
			return StatusOf(err)
		}
		bytes, l.estimated = max(bytes, stats.Bytes), true
	}
	if bytes > l.s.options.MaxListBytes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the list of %s has %d bytes, more than the %d that are sent at once: use limit and continue", l.s.resource.Resource, bytes, l.s.options.MaxListBytes))
	}
	return nil
}

// narrow are the conditions of a predicate that SQL can look at.
func (s *Storage) narrow(predicate *storage.SelectionPredicate) []mvcc.Condition {
	var conditions []mvcc.Condition
	if predicate.Label != nil {
		requirements, _ := predicate.Label.Requirements()
		for _, requirement := range requirements {
			switch requirement.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				conditions = append(conditions, mvcc.LabelIn(requirement.Key(), requirement.Values().List()...))
			case selection.Exists:
				conditions = append(conditions, mvcc.LabelExists(requirement.Key()))
			default: // what matches objects without the label is left to the predicate
			}
		}
	}
	if predicate.Field == nil {
		return conditions
	}
	for _, requirement := range predicate.Field.Requirements() {
		exact := requirement.Operator == selection.Equals || requirement.Operator == selection.DoubleEquals
		if !exact || requirement.Value == "" || !storable(requirement.Value) {
			continue
		}
		if column, ok := s.column(requirement.Field); ok {
			conditions = append(conditions, mvcc.ColumnIs(column, requirement.Value))
		}
		if column, ok := s.kind.RowFields[requirement.Field]; ok {
			conditions = append(conditions, mvcc.RowIs(s.kind.RowTable, column, s.kind.Number, requirement.Value))
		}
	}
	return conditions
}

func (s *Storage) column(field string) (mvcc.Column, bool) {
	switch field {
	case metav1.ObjectNameField:
		return mvcc.NameColumn, true
	case "metadata.namespace":
		return mvcc.NamespaceColumn, true
	}
	column, ok := s.kind.Fields[field]
	return column, ok
}
