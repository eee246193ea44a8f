// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/download"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/results"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
)

// Options are what a Follower needs.
type Options struct {
	// Client reads from caches and writes live, Live reads live.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Results says where the results of Scans lie.
	Results *results.Client
	// Namespace is the forwarder's own.
	Namespace string
	ClusterID string
	Version   string
	// FileRoot is the directory below which sinks may write files; "": none may.
	FileRoot string
	// Reports deletes reports of Scans whose results are given up; nil: no results are.
	Reports Reports
	// Servers are the addresses of the API server, which sinks of namespaces may not dial.
	Servers []netip.Prefix
	Workers int
	Clock   clock.Clock
	Random  func() float64
	Metrics *Metrics
}

// Follower sends Scans. It is made by New and started by Start.
type Follower struct {
	o Options

	mutex sync.Mutex
	turns *turns.Turns
	sinks map[string]*far
	scans map[types.UID]*known
	uids  map[types.NamespacedName]types.UID
	keys  plan.Keys
	// downloads are those of results, which sinks share.
	downloads download.Downloads
	// refused is when each sink last refused a record.
	refused map[string]time.Time

	// kick says that somebody may have a turn; the others have Scans, ScanSettings and the ClusterScanSetting looked at.
	kick          chan struct{}
	scanEvents    chan event.GenericEvent
	settingEvents chan event.GenericEvent
	clusterEvents chan event.GenericEvent
	// streams are those that run. Only Start begins them, and waits for them.
	streams sync.WaitGroup
}

// known is what is known in memory of one Scan.
type known struct {
	key      types.NamespacedName
	ended    time.Time
	due      map[string]plan.Due
	pending  map[string]bool
	progress map[string]plan.Progress
	forged   int       // entries of others that were seen at the last look
	since    time.Time // when the Scan was first seen due
	written  time.Time
}

// settleTime collects what several sinks have to say of a Scan.
const settleTime = 500 * time.Millisecond

// New makes a Follower.
func New(o Options, keys plan.Keys) *Follower {
	f := &Follower{
		o: o, keys: keys, turns: turns.New(turns.Bounds{Workers: o.Workers}), sinks: map[string]*far{}, scans: map[types.UID]*known{},
		uids: map[types.NamespacedName]types.UID{}, refused: map[string]time.Time{}, kick: make(chan struct{}, 1),
		scanEvents: make(chan event.GenericEvent, 1024), settingEvents: make(chan event.GenericEvent, 64), clusterEvents: make(chan event.GenericEvent, 64),
	}
	o.Metrics.follower = f
	return f
}

// NeedLeaderElection is true: one forwarder works.
func (*Follower) NeedLeaderElection() bool { return true }

// Start gives turns until the context ends, and waits for the streams that run.
func (f *Follower) Start(ctx context.Context) error {
	defer f.closeAll()
	defer f.streams.Wait()
	for {
		for {
			f.mutex.Lock()
			task, ok := f.turns.Next()
			f.mutex.Unlock()
			if !ok {
				break
			}
			f.streams.Go(func() { f.stream(ctx, task) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.kick:
		}
	}
}

// wake has the turns looked at.
func (f *Follower) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// SetKeys replaces the keys of seals, after a rotation.
func (f *Follower) SetKeys(keys plan.Keys) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.keys = keys
}

// lookAt has a Scan looked at when it has settled.
func (f *Follower) lookAt(ctx context.Context, key types.NamespacedName) {
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-f.o.Clock.After(settleTime):
		}
		select {
		case <-ctx.Done():
		case f.scanEvents <- event.GenericEvent{Object: scanAt(key)}:
		}
	}()
}

// lookAtPending has all Scans looked at that wait for a sink.
func (f *Follower) lookAtPending(ctx context.Context, id string) {
	f.mutex.Lock()
	var keys []types.NamespacedName
	for _, k := range f.scans {
		if k.pending[id] {
			keys = append(keys, k.key)
		}
	}
	f.mutex.Unlock()
	for _, key := range keys {
		f.lookAt(ctx, key)
	}
}

func scanAt(key types.NamespacedName) *executionv1.Scan {
	scan := &executionv1.Scan{}
	scan.Namespace, scan.Name = key.Namespace, key.Name
	return scan
}

// forget drops what is known of a Scan. A stream that runs ends at its next batch.
func (f *Follower) forget(ctx context.Context, key types.NamespacedName) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	uid, ok := f.uids[key]
	if !ok {
		return
	}
	f.drop(ctx, uid)
}

// drop is called with the mutex.
func (f *Follower) drop(ctx context.Context, uid types.UID) {
	k := f.scans[uid]
	for id := range k.pending {
		f.turns.Remove(turns.Task{Sink: id, Namespace: k.key.Namespace, UID: string(uid)})
		f.idle(ctx, id)
	}
	delete(f.scans, uid)
	delete(f.uids, k.key)
}
