// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

// DefaultKeep is how long days and first times are kept by default.
const DefaultKeep = 400 * 24 * time.Hour

// Bounds of one call.
const (
	maxRounds = 20
	pageSize  = 500
	// confirmEvery is the time between two looks at what newer data touches.
	confirmEvery = time.Hour
	maxErrors    = 5 // one damaged object does not hold up the others; a database that is away does
)

// Kind is a kind whose objects are deleted at some age.
type Kind struct {
	// Number is the kind's in the database.
	Number  int
	MaxAge  time.Duration
	Storage storage.Interface
	// New makes an empty object of the internal version.
	New func() runtime.Object
}

// Config is what an Upkeep is made of.
type Config struct {
	Store *mvcc.Store
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// DailyKeep and FirstSeenKeep default to DefaultKeep.
	DailyKeep, FirstSeenKeep time.Duration
	// Aging are the kinds whose objects have a greatest age.
	Aging []Kind
	// Reports is the number of the kind of vulnerability reports, of which is kept how far they are known to be good.
	Reports int
}

// Upkeep drops what has been kept for long enough.
type Upkeep struct {
	store *mvcc.Store
	clock clock.PassiveClock
	keep  rows.Keep
	aging []Kind

	reports   int // the number of the kind of vulnerability reports
	confirmed time.Time
}

// New makes an Upkeep that is called after each compaction of the store.
func New(config Config) *Upkeep {
	u := &Upkeep{
		store: config.Store, clock: config.Clock, aging: config.Aging, reports: config.Reports,
		keep: rows.Keep{Daily: cmp.Or(config.DailyKeep, DefaultKeep), FirstSeen: cmp.Or(config.FirstSeenKeep, DefaultKeep)},
	}
	if u.clock == nil {
		u.clock = clock.RealClock{}
	}
	u.store.AddChore(func(ctx context.Context) {
		if err := u.Once(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Upkeep is incomplete; the next compaction goes on")
		}
	})
	return u
}

// Once drops what is old now.
func (u *Upkeep) Once(ctx context.Context) error {
	errs := []error{u.forget(ctx), u.sweep(ctx), u.confirm(ctx)}
	for i := range u.aging {
		if u.aging[i].MaxAge > 0 {
			errs = append(errs, u.expire(ctx, &u.aging[i]))
		}
	}
	return errors.Join(errs...)
}

func (u *Upkeep) forget(ctx context.Context) error {
	return u.rounds(ctx, "forget what is old", func(tx *sqldb.Tx) (bool, error) { return rows.Forget(ctx, tx, u.keep, u.clock.Now()) })
}

// sweep drops documents whose uploads were broken off.
func (u *Upkeep) sweep(ctx context.Context) error {
	return u.rounds(ctx, "sweep uploads", func(tx *sqldb.Tx) (bool, error) { return contents.Sweep(ctx, tx, u.clock.Now()) })
}

// confirm moves how far untouched reports are known to be good, once an hour.
func (u *Upkeep) confirm(ctx context.Context) error {
	now := u.clock.Now()
	if !u.confirmed.IsZero() && now.Sub(u.confirmed) < confirmEvery {
		return nil
	}
	err := u.rounds(ctx, "confirm reports", func(tx *sqldb.Tx) (bool, error) { return images.Confirm(ctx, tx, u.reports) })
	if err == nil {
		u.confirmed = now
	}
	return err
}

// rounds does a part of some work in a transaction again and again, until nothing is left or the next call may go on.
func (u *Upkeep) rounds(ctx context.Context, doing string, part func(*sqldb.Tx) (more bool, err error)) error {
	for range maxRounds {
		var more bool
		err := u.store.Maintain(ctx, doing, func(tx *sqldb.Tx) error {
			var err error
			more, err = part(tx)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// place is where an object stands in the order of ages.
type place struct {
	created, id int64
	key         string
}

// expire deletes the objects of a kind that are too old. Those that wait for their finalizers are passed by.
func (u *Upkeep) expire(ctx context.Context, kind *Kind) error {
	last := place{created: math.MinInt64}
	var errs []error
	for range maxRounds {
		page, err := u.older(ctx, kind, last)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, at := range page {
			if err := u.remove(ctx, kind, at.key); err != nil {
				errs = append(errs, fmt.Errorf("delete %s, which is older than %s: %w", at.key, kind.MaxAge, err))
			}
			if len(errs) == maxErrors {
				return errors.Join(errs...)
			}
			last = at
		}
		if len(page) < pageSize {
			break
		}
	}
	return errors.Join(errs...)
}

// older returns the next objects that are too old.
func (u *Upkeep) older(ctx context.Context, kind *Kind, after place) (page []place, err error) {
	cutoff := u.clock.Now().Add(-kind.MaxAge).UnixMilli()
	err = u.store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT created, id, "key" FROM objects WHERE kind = ? AND created < ? AND created >= ? AND (created > ? OR id > ?)
			ORDER BY created, id LIMIT ?`, kind.Number, cutoff, after.created, after.created, after.id, pageSize)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var at place
			if err := found.Scan(&at.created, &at.id, &at.key); err != nil {
				return err
			}
			page = append(page, at)
		}
		return found.Err()
	})
	return page, err
}

// remove deletes one object, or marks it as being deleted where finalizers hold it.
func (u *Upkeep) remove(ctx context.Context, kind *Kind, key string) error {
	ctx = sqlstorage.WithHeadOnly(ctx)
	obj := kind.New()
	if err := kind.Storage.Get(ctx, key, storage.GetOptions{}, obj); err != nil {
		return ignoreGone(err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetDeletionTimestamp() != nil {
		return err
	}
	uid := accessor.GetUID()
	preconditions := &storage.Preconditions{UID: &uid}
	if len(accessor.GetFinalizers()) > 0 {
		return ignoreGone(kind.Storage.GuaranteedUpdate(ctx, key, kind.New(), false, preconditions, u.mark, nil))
	}
	version := accessor.GetResourceVersion() // a finalizer that came in the meantime makes this another object
	preconditions.ResourceVersion = &version
	return ignoreGone(kind.Storage.Delete(ctx, key, kind.New(), preconditions, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
}

// mark is what the generic registry does to an object that finalizers hold.
func (u *Upkeep) mark(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetDeletionTimestamp() != nil {
		return obj, nil, err
	}
	accessor.SetDeletionTimestamp(&metav1.Time{Time: u.clock.Now()})
	accessor.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
	if accessor.GetGeneration() > 0 {
		accessor.SetGeneration(accessor.GetGeneration() + 1)
	}
	return obj, nil, nil
}

// ignoreGone takes for done what somebody else has deleted or changed: a change is looked at with the next compaction.
func ignoreGone(err error) error {
	if storage.IsNotFound(err) || storage.IsConflict(err) || storage.IsInvalidObj(err) {
		return nil
	}
	return err
}
