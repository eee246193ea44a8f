// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// maxIgnored bounds how many types of events are logged.
	maxIgnored = 100
)

// Options are what a Runner needs.
type Options struct {
	Settings *Settings
	// Client writes, Reader reads past every cache.
	Client client.Client
	Reader client.Reader
	Events events.EventRecorder
	SQS    *sqs.Client
	// ECS is used only where the settings say so.
	ECS     *ecs.Client
	Clock   clock.WithTicker
	Metrics *Metrics
}

// Runner reads the queue and keeps the ScheduledScans right. All its state belongs to the
// one goroutine of Start.
type Runner struct {
	settings *Settings
	client   client.Client
	reader   client.Reader
	events   events.EventRecorder
	queue    *queue
	ecs      *ecs.Client
	clock    clock.WithTicker
	metrics  *Metrics

	state  *state
	ledger ledger
	// ignored are the types of events that were logged.
	ignored map[string]bool
	// maxReceives is 0 where SQS itself takes messages out that fail.
	maxReceives int

	mu     sync.Mutex
	health error
}

// NewRunner makes a Runner.
func NewRunner(o Options) *Runner {
	return &Runner{
		settings: o.Settings, client: o.Client, reader: o.Reader, events: o.Events, ecs: o.ECS, clock: o.Clock, metrics: o.Metrics,
		queue: &queue{client: o.SQS, config: o.Settings.AWS, clock: o.Clock},
		state: newState(), ledger: ledger{}, ignored: map[string]bool{}, maxReceives: o.Settings.AWS.MaxReceives,
	}
}

// NeedLeaderElection says that only one process may know which containers run.
func (r *Runner) NeedLeaderElection() bool { return true }

// Healthz says whether the queue can be read. A process that waits for its turn is well.
func (r *Runner) Healthz(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

func (r *Runner) setHealth(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health = err
}

// Start works until the context ends.
func (r *Runner) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("aws")
	ctx = logr.NewContext(ctx, log)
	if r.untilDone(ctx, "The ScheduledScans cannot be read", r.begin) != nil {
		return nil //nolint:nilerr // the only error is that the context has ended
	}
	log.Info("Began", "scheduledScans", r.ledger.count(), "images", len(r.state.images), "containers", len(r.state.places))
	r.readRedrive(ctx)
	r.resync(ctx)
	next := r.clock.Now().Add(r.settings.Kubernetes.ResyncInterval.Duration)
	pause := firstPause
	for ctx.Err() == nil {
		if now := r.clock.Now(); !now.Before(next) {
			r.relist(ctx)
			r.resync(ctx)
			next = now.Add(r.settings.Kubernetes.ResyncInterval.Duration)
		}
		messages, err := r.queue.receive(ctx)
		if ctx.Err() != nil {
			break
		}
		r.setHealth(err)
		if err != nil {
			r.metrics.errors.Inc()
			log.Error(
				err,
				"Cannot read the queue; check aws.queueUrl, aws.region and the rights sqs:ReceiveMessage, sqs:DeleteMessage and sqs:ChangeMessageVisibility",
				"pause", pause.String(),
			)
			pause = r.rest(ctx, pause)
			continue
		}
		pause = firstPause
		r.workOn(ctx, messages)
	}
	return nil //nolint:nilerr // as above
}

// rest waits, and returns for how long to wait the next time.
func (r *Runner) rest(ctx context.Context, pause time.Duration) time.Duration {
	select {
	case <-ctx.Done():
	case <-r.clock.After(pause):
	}
	return min(2*pause, maxPause)
}

// untilDone repeats what fails, with growing pauses. Its error is that the context has ended.
func (r *Runner) untilDone(ctx context.Context, message string, f func(context.Context) error) error {
	pause := firstPause
	for {
		err := f(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.setHealth(err)
		if err == nil {
			return nil
		}
		logr.FromContextOrDiscard(ctx).Error(err, message, "pause", pause.String())
		pause = r.rest(ctx, pause)
	}
}

func (r *Runner) list(ctx context.Context) ([]executionv1.ScheduledScan, error) {
	all := &executionv1.ScheduledScanList{}
	err := r.reader.List(ctx, all, client.InNamespace(r.settings.Kubernetes.Namespace), client.MatchingLabels{LabelManagedBy: ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("list ScheduledScans in %s: %w", r.settings.Kubernetes.Namespace, err)
	}
	return all.Items, nil
}

// begin learns what an earlier process knew.
func (r *Runner) begin(ctx context.Context) error {
	scans, err := r.list(ctx)
	if err != nil {
		return err
	}
	r.ledger, err = r.state.load(scans)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Some ScheduledScans have lost what they are about; delete them")
	}
	return nil
}

// readRedrive finds out whether SQS takes out messages that fail. Without the right to ask, discovery works as well.
func (r *Runner) readRedrive(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	count, err := r.queue.redrive(ctx)
	switch {
	case err != nil:
		log.Info("Whether the queue has a redrive policy is not known, so messages that fail are thrown away by auto-discovery",
			"maxReceives", r.maxReceives, "error", err.Error())
	case count > 0:
		r.maxReceives = 0
		log.Info("Messages that fail are left to the queue's redrive policy", "maxReceiveCount", count)
	}
}

// relist lists the ScheduledScans again: people may have deleted or changed some.
func (r *Runner) relist(ctx context.Context) {
	scans, err := r.list(ctx)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The ScheduledScans are not looked at this time")
		return
	}
	// Invalid ones were reported at the start.
	r.ledger, _ = newState().load(scans)
}

// resync makes all ScheduledScans right, after asking ECS what runs where that is wanted.
func (r *Runner) resync(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	if r.settings.AWS.Sync.Enabled {
		l, err := list(ctx, r.ecs, r.settings.AWS.Sync.Clusters)
		if err != nil {
			r.metrics.syncs.WithLabelValues("error").Inc()
			log.Error(err, "Cannot list what runs; the rights ecs:ListClusters, ecs:ListTasks and ecs:DescribeTasks are needed, or aws.sync.enabled: false")
		} else {
			r.metrics.syncs.WithLabelValues("ok").Inc()
			o := r.state.applyListing(l, r.clock.Now())
			log.V(1).Info("Listed what runs", "clusters", len(l.clusters), "tasks", len(l.tasks), "imagesChanged", len(o.touched))
			if o.errs != nil {
				log.Error(o.errs, "Some containers that ECS lists make no sense")
			}
		}
	}
	images := map[imageKey]bool{}
	for key := range r.state.images {
		images[key] = true
	}
	for key := range r.ledger {
		images[key] = true
	}
	permanent, transient := r.settle(ctx, slices.Sorted(maps.Keys(images)))
	if err := errors.Join(permanent, transient); err != nil && ctx.Err() == nil {
		log.Error(err, "Some ScheduledScans could not be made right")
	}
}

// workOn works on messages one after the other, while keeping all of them from others.
func (r *Runner) workOn(ctx context.Context, messages []message) {
	if len(messages) == 0 {
		return
	}
	held := r.queue.hold(ctx, messages)
	defer held.giveBack(ctx)
	for _, m := range messages {
		err := r.take(ctx, m)
		if ctx.Err() != nil {
			return // it has not been dealt with, and is given back
		}
		held.letGo(m)
		if !r.finished(ctx, m, err) {
			continue // it comes back when its time is over
		}
		if err := r.queue.remove(ctx, m); err != nil && ctx.Err() == nil {
			r.metrics.errors.Inc()
			logr.FromContextOrDiscard(ctx).Error(err, "A message will come again", "messageID", m.id)
		}
	}
}

// take does what a message asks for. It stays with it while the API server is away, so
// that events of one group keep their order; its error is permanent.
func (r *Runner) take(ctx context.Context, m message) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("messageID", m.id)
	e, err := parseEvent(m.body)
	if err != nil {
		return err
	}
	if e.DetailType != taskStateChange {
		r.metrics.messages.WithLabelValues(resultIgnored).Inc()
		if !r.ignored[e.DetailType] && len(r.ignored) < maxIgnored {
			r.ignored[e.DetailType] = true // logged once for each type
			log.Info(
				"Ignores events of a type that says nothing about containers; let the rule of EventBridge choose ECS Task State Change only",
				"detailType", e.DetailType, "source", e.Source,
			)
		}
		return nil
	}
	o := r.state.apply(e.Detail, r.clock.Now())
	r.metrics.stale.Add(float64(o.stale))
	log.V(1).Info("Took an event in", "task", e.Detail.TaskARN, "version", e.Detail.Version, "status", e.Detail.LastStatus,
		"imagesChanged", len(o.touched), "stale", o.stale)
	var permanent error
	err = r.untilDone(logr.NewContext(ctx, log), "ScheduledScans cannot be written", func(ctx context.Context) error {
		var transient error
		permanent, transient = r.settle(ctx, o.touched)
		return transient
	})
	if err != nil {
		return err
	}
	if err = errors.Join(o.errs, permanent); err == nil {
		r.metrics.messages.WithLabelValues(resultProcessed).Inc()
	}
	return err
}

// finished says whether a message leaves the queue.
func (r *Runner) finished(ctx context.Context, m message, err error) bool {
	if err == nil {
		return true
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("messageID", m.id, "receives", m.receives)
	if r.maxReceives > 0 && m.receives >= r.maxReceives {
		r.metrics.messages.WithLabelValues(resultDiscarded).Inc()
		log.Error(err, "Threw a message away, since it has failed too often; a redrive policy of the queue would keep it", "maxReceives", r.maxReceives)
		return true
	}
	r.metrics.messages.WithLabelValues(resultFailed).Inc()
	log.Error(err, "A message cannot be dealt with, and stays in the queue")
	return false
}

func (r *Runner) count() {
	r.metrics.images.Set(float64(len(r.state.images)))
	r.metrics.containers.Set(float64(len(r.state.places)))
	r.metrics.scheds.Set(float64(r.ledger.count()))
}
