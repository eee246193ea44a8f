// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// seen is an item as it was read, and what is known beside it.
type seen struct {
	view
	circumstances
}

// read reads an item.
type read func(ctx context.Context) (seen, error)

// hold is an item that this worker has claimed, or works on without a claim.
type hold struct {
	w        *Worker
	d        *queue.Delivery
	step     item.Step
	seen     seen
	decision item.Decision
	// claim is "" where there is none.
	claim string
	began time.Time
	// secret is the version of the Secret that the try has used.
	secret string
	// account is that at the registry; nil: the registry was not asked.
	account    *limits.Host
	accountUID string
	// ctx ends with the claim.
	ctx  context.Context //nolint:containedctx // the claim is the span of the context
	stop context.CancelCauseFunc
	all  sync.WaitGroup
}

// approach reads an item, decides, and writes what is decided. It gives a hold where the item is to be worked on; mayClaim is false
// where that is done without a claim.
func (w *Worker) approach(ctx context.Context, d *queue.Delivery, step item.Step, uid string, mayClaim bool, read read) (*hold, item.Decision, error) {
	claim := w.Draw()
	var err error
	for round := range rounds {
		var s seen
		if s, err = read(ctx); err != nil {
			return nil, item.Decision{}, err
		}
		mine := s.work.Claim == claim
		if !mine && round > 0 && s.work.Claim != "" && s.work.LeaseExpiresAt != nil && s.work.LeaseExpiresAt.After(s.now) {
			w.Metrics.doubled.Inc()
		}
		// An item that workers were lost over is worked on by one that does nothing else.
		if s.work.Lost > 0 {
			s.idle = w.gate.tryAlone()
		}
		decision := item.Decide(observe(step, s.view, d, uid, s.circumstances))
		if mine {
			// The answer to the claim was lost, and not the claim.
			decision = item.Decision{Row: "Mine", Action: item.Claim, Attempt: s.work.Attempt, Crashes: s.work.Crashes, Lost: s.work.Lost}
			return w.hold(ctx, d, step, s, decision, claim), decision, nil
		}
		if decision.Action == item.Claim && !mayClaim {
			return w.hold(ctx, d, step, s, decision, ""), decision, nil
		}
		if err = w.write(ctx, d, step, &s, decision, claim); err == nil {
			if decision.Action == item.Claim {
				return w.hold(ctx, d, step, s, decision, claim), decision, nil
			}
			return nil, decision, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, decision, err
		}
	}
	return nil, item.Decision{}, err
}

// write writes what was decided.
func (w *Worker) write(ctx context.Context, d *queue.Delivery, step item.Step, s *seen, decision item.Decision, claim string) error {
	var patch object
	switch decision.Action {
	case item.Nothing:
		return nil
	case item.Claim:
		patch = claimPatch(s.view, decision, step, claim, w.Name, d.Job)
	case item.Release, item.Wait, item.Settle:
		patch = endPatch(s.view, nextOf(decision), messageOf(decision, s.view), d.Job, s.now)
	}
	var stored struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	now, err := w.Reports.PatchStatus(ctx, s.namespace, s.resource, s.name, patch, &stored)
	if err != nil {
		return err
	}
	s.now, s.version = now, stored.Metadata.ResourceVersion
	if decision.State == reportsv1.ImageQuarantined && decision.Action == item.Settle {
		w.event(ctx, d, "Quarantined", s.name+": "+messageOf(decision, s.view))
	}
	return nil
}

// messageOf explains a decision to people.
func messageOf(d item.Decision, v view) string {
	switch d.Reason {
	case item.ReasonAdapterCrashed:
		return "the adapter has died over this image again and again; the last time by " + v.reason
	case item.ReasonWorkerLost:
		return "workers have died over this image again and again"
	case item.ReasonDatabaseMissing:
		return "there is no vulnerability database yet"
	case item.ReasonDatabaseStale:
		return "the vulnerability database is too old to be used"
	}
	return ""
}

// hold begins a try. The claim, if there is one, is renewed until the end.
func (w *Worker) hold(ctx context.Context, d *queue.Delivery, step item.Step, s seen, decision item.Decision, claim string) *hold {
	h := &hold{w: w, d: d, step: step, seen: s, decision: decision, claim: claim, began: w.Clock.Now()}
	h.ctx, h.stop = context.WithCancelCause(ctx)
	if claim != "" {
		h.all.Go(h.renew)
	}
	return h
}

// open begins to ask the registry of the item.
func (h *hold) open(r *registryv1alpha1.Registry) (*session, error) {
	s, err := h.w.open(h.ctx, r, h.d)
	if s != nil {
		h.secret, h.account, h.accountUID = s.secret, s.account, s.accountUID
	}
	return s, err
}

// renew tells the reports API that the worker lives, until the try ends. A claim that is somebody else's ends the try.
func (h *hold) renew() {
	ticker := time.NewTicker(renewal * h.w.Beat)
	defer ticker.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		v, _, err := h.w.readWork(h.ctx, h.seen.resource, h.seen.namespace, h.seen.name)
		if apierrors.IsNotFound(err) || err == nil && v.work.Claim != h.claim {
			h.stop(errDropped)
			return
		}
		if err == nil {
			patch := object{
				"metadata": object{"resourceVersion": v.version},
				"status":   object{"work": object{"leaseExpiresAt": h.w.Clock.Now().UTC().Format(time.RFC3339)}},
			}
			_, err = h.w.Reports.PatchStatus(h.ctx, v.namespace, v.resource, v.name, patch, &struct{}{})
		}
		if err != nil && h.ctx.Err() == nil {
			h.w.Log.Debug("a lease was not renewed; it is tried again", "item", h.seen.name, "error", err)
		}
	}
}

// readWork reads an item of either kind.
func (w *Worker) readWork(ctx context.Context, resource, namespace, name string) (view, time.Time, error) {
	if resource == reportsclient.Repositories {
		var r reportsv1.Repository
		now, err := w.Reports.Get(ctx, namespace, resource, name, &r)
		return viewOfRepository(&r), now, err
	}
	var i reportsv1.Image
	now, err := w.Reports.Get(ctx, namespace, resource, name, &i)
	return viewOfImage(&i), now, err
}

// end writes what became of a try, unless an upload has ended the claim already, and tells the controller.
func (h *hold) end(ctx context.Context, err error, host string, bytes int64) verdict {
	ended := context.Cause(h.ctx) //nolint:contextcheck // the claim ends by itself, too
	h.stop(nil)
	h.all.Wait()
	v := judge(err, ended)
	w := h.w
	w.Metrics.seconds.WithLabelValues(string(h.d.Step)).Observe(w.Clock.Now().Sub(h.began).Seconds())
	e := endedOf(h.d, h.seen.name)
	e.Row, e.Outcome, e.Reason, e.Host, e.Bytes, e.Account = h.decision.Row, outcomes[v.outcome], v.reason, host, bytes, h.accountUID
	if h.account != nil {
		if told, does := h.account.RateLimit(); does {
			e.Remaining, e.ResetTime = &told.Remaining, told.ResetTime
		}
	}
	w.Metrics.bytes.Add(float64(max(bytes, 0)))
	switch v.outcome {
	case item.Refused:
		e.Secret = h.secret
	case item.Throttled:
		w.Metrics.throttled.Inc()
	case item.Crashed:
		w.Metrics.crashes.WithLabelValues(h.d.Adapter, v.reason).Inc()
	case item.Done, item.Transient, item.Unscannable, item.Broken, item.GivenBack:
	}
	if v.dropped {
		e.Outcome, e.Row = queue.Passed, "Dropped"
		w.say(e)
		return v
	}
	if v.outcome != item.Done {
		about := []any{"item", h.seen.name, "namespace", h.seen.namespace, "step", h.step, "outcome", e.Outcome, "reason", v.reason, "message", v.message}
		w.Log.Info("a try has not ended well", about...)
		next, failed := h.settle(context.WithoutCancel(ctx), v)
		if failed != nil {
			w.Log.Warn("what became of an item could not be written; its lease ends", "item", h.seen.name, "error", failed)
		}
		if wait := next.NotBefore.Sub(w.Clock.Now()); !next.NotBefore.IsZero() && wait > 0 {
			e.RetryAfterSeconds = int64(wait.Seconds())
		}
	}
	w.say(e)
	return v
}

// settle writes the state of an item after a try that did not end well.
func (h *hold) settle(ctx context.Context, v verdict) (item.Next, error) {
	ctx, cancel := context.WithTimeout(ctx, writing)
	defer cancel()
	var err error
	var next item.Next
	for range rounds {
		now, at, failed := h.w.readWork(ctx, h.seen.resource, h.seen.namespace, h.seen.name)
		if failed != nil {
			return next, ignoreGone(failed)
		}
		if now.work.Claim != h.claim {
			return next, nil
		}
		next = item.After(item.Tried{
			Step: h.step, Now: at, Outcome: v.outcome, Reason: v.reason, Attempt: h.decision.Attempt, Crashes: h.decision.Crashes, Lost: h.decision.Lost,
			Scanned: h.seen.scanned, RetryAfter: v.waitUntil(at), Chance: h.w.Chance(),
		})
		_, err = h.w.Reports.PatchStatus(ctx, now.namespace, now.resource, now.name, endPatch(now, next, v.message, h.d.Job, at), &struct{}{})
		if !apierrors.IsConflict(err) {
			return next, ignoreGone(err)
		}
	}
	return next, err
}

// ignoreGone forgives that an item was deleted meanwhile.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// passed tells the controller of an item that nothing was done with.
func (w *Worker) passed(d *queue.Delivery, name string, decision item.Decision, err error) {
	e := endedOf(d, name)
	e.Outcome, e.Row = queue.Passed, decision.Row
	switch {
	case apierrors.IsNotFound(err):
		e.Row = "Deleted"
	case err != nil:
		v := judge(err, nil)
		e.Outcome, e.Reason = outcomes[v.outcome], v.reason
		if !errors.Is(err, context.Canceled) {
			w.Log.Warn("an item could not be read", "item", name, "namespace", d.Namespace, "error", err)
		}
	}
	w.say(e)
}
