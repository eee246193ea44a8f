// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/discreet"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/target"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

// far is one sink, with what is known of its far end.
type far struct {
	id string
	// as is the sink as the settings have it; another one makes another connection.
	as     string
	target target.Target
	health plan.Health
	guard  *guard
	pace   *pace
	// open is the connection; nil before the first stream. Stale streams see another one.
	open    *connection
	probing bool
	proving bool
}

// connection is an open sink that is closed when nobody uses it any longer.
type connection struct {
	sink    sink.Sink
	users   int
	retired bool
}

// release ends the use of a connection. It is called without the mutex.
func (f *Follower) release(c *connection) {
	f.mutex.Lock()
	c.users--
	last := c.retired && c.users == 0
	f.mutex.Unlock()
	if last {
		f.close(c)
	}
}

func (f *Follower) close(c *connection) {
	if err := c.sink.Close(); err != nil {
		ctrl.Log.Error(err, "Close a sink")
	}
}

// retire has a connection closed when nobody uses it.
func (f *Follower) retire(c *connection) {
	if c == nil {
		return
	}
	f.mutex.Lock()
	c.retired = true
	idle := c.users == 0
	f.mutex.Unlock()
	if idle {
		f.close(c)
	}
}

func (f *Follower) closeAll() {
	f.mutex.Lock()
	var open []*connection
	for _, s := range f.sinks {
		open = append(open, s.open)
		s.open = nil
	}
	f.mutex.Unlock()
	for _, c := range open {
		f.retire(c)
	}
}

// inForce are the settings of the cluster and of a namespace, "" for none, and what of them counts; nil where there are none.
func (f *Follower) inForce(
	ctx context.Context, namespace string,
) (in settings.Input, cluster *settingsv1alpha2.ClusterScanSetting, own *settingsv1alpha2.ScanSetting, err error) {
	in.Namespace = namespace
	above := &settingsv1alpha2.ClusterScanSetting{}
	if found, err := f.get(ctx, types.NamespacedName{Name: settingsv1alpha2.Name}, above); err != nil {
		return in, nil, nil, err
	} else if found {
		cluster, in.Cluster, in.ClusterUID = above, settings.ClusterInForce(above), above.UID
	}
	if namespace == "" {
		return in, cluster, nil, nil
	}
	below := &settingsv1alpha2.ScanSetting{}
	if found, err := f.get(ctx, types.NamespacedName{Namespace: namespace, Name: settingsv1alpha2.Name}, below); err != nil {
		return in, nil, nil, err
	} else if found {
		own, in.Setting, in.SettingUID = below, settings.InForce(in.Cluster, below), below.UID
	}
	return in, cluster, own, nil
}

// effective are the sinks of a namespace, each with a far end.
func (f *Follower) effective(ctx context.Context, namespace string) ([]plan.Sink, error) {
	in, cluster, own, err := f.inForce(ctx, namespace)
	if err != nil {
		return nil, err
	}
	since := map[string]time.Time{}
	if cluster != nil {
		sinceOf(cluster.Status.Sinks, "", since)
	}
	if own != nil {
		sinceOf(own.Status.Sinks, namespace, since)
	}
	space := &corev1.Namespace{}
	if _, err := f.get(ctx, types.NamespacedName{Name: namespace}, space); err != nil {
		return nil, err
	}
	in.Labels = space.Labels
	found := settings.Compute(in).Forwarding.Sinks
	list := make([]plan.Sink, 0, len(found))
	for i := range found {
		f.meet(ctx, &found[i])
		list = append(list, plan.Sink{EffectiveSink: found[i], InForceSince: since[found[i].Namespace+"/"+found[i].Name]})
	}
	return list, nil
}

func sinceOf(statuses []settingsv1alpha2.SinkStatus, namespace string, since map[string]time.Time) {
	for i := range statuses {
		if t := statuses[i].Since; t != nil {
			since[namespace+"/"+statuses[i].Name] = t.Time
		}
	}
}

func (f *Follower) get(ctx context.Context, key types.NamespacedName, into client.Object) (bool, error) {
	err := f.o.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// meet makes a sink known, or changes it. What was known of another sink under its name is forgotten.
func (f *Follower) meet(ctx context.Context, s *settings.EffectiveSink) {
	as := written(s)
	f.mutex.Lock()
	present := f.sinks[s.ID]
	if present != nil && present.as == as {
		f.mutex.Unlock()
		return
	}
	next := &far{id: s.ID, as: as, guard: &guard{}}
	var old *connection
	if present != nil {
		old = present.open
	}
	f.sinks[s.ID] = next
	f.o.Metrics.forget(s.ID)
	t, err := target.Of(s, f.o.Namespace, f.o.FileRoot)
	next.target = t
	if err == nil {
		t.Config.ClusterID, t.Config.Version, t.Config.Secrets = f.o.ClusterID, f.o.Version, &secrets{live: f.o.Live, of: t.References, own: s.Namespace == ""}
		t.Config.Expires = func(which string, notAfter time.Time) { f.o.Metrics.expires(next.id, which, notAfter) }
		if s.Namespace != "" {
			t.Config.Dial = target.Guard(s.Networks, f.o.Servers)
		}
		next.target, next.pace = t, newPace(t.PerSecond, f.o.Clock)
		f.turns.Limit(s.ID, next.health.Streams())
	} else {
		f.fails(ctx, next, &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: err.Error()})
	}
	f.mutex.Unlock()
	f.retire(old)
	f.wake()
}

// written is what makes two sinks the same.
func written(s *settings.EffectiveSink) string {
	text, err := json.Marshal(struct {
		UID      types.UID
		Sink     any
		Networks any
	}{s.UID, s.Sink, s.Networks})
	if err != nil {
		return err.Error() // what came as JSON can be written as JSON
	}
	return string(text)
}

// part forgets sinks that no setting has any longer.
func (f *Follower) part(inForce map[string]bool) {
	f.mutex.Lock()
	var open []*connection
	for id, s := range f.sinks {
		if !inForce[id] {
			open = append(open, s.open)
			s.open = nil
			f.turns.Forget(id)
			f.o.Metrics.forget(id)
			delete(f.sinks, id)
		}
	}
	f.mutex.Unlock()
	for _, c := range open {
		f.retire(c)
	}
}

// use opens a sink, where that has not happened, and counts the user.
func (f *Follower) use(s *far) (*connection, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.sinks[s.id] != s {
		return nil, errChanged
	}
	if s.open == nil {
		if s.target.Config.Secrets == nil {
			return nil, &sink.Error{Class: s.health.Class, Reason: s.health.Reason, Message: s.health.Message}
		}
		opened, err := discreet.Open(s.target.Config)
		if err != nil {
			return nil, &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: err.Error()}
		}
		s.open = &connection{sink: opened}
	}
	s.open.users++
	return s.open, nil
}

// errChanged says that a sink is another one now.
var errChanged = errors.New("the sink was changed")

// delivered notes an acknowledgement. It is called with the mutex.
func (f *Follower) delivered(ctx context.Context, s *far) {
	if f.sinks[s.id] != s {
		return
	}
	recovered := !s.health.IsHealthy()
	s.health = s.health.Delivered(f.o.Clock.Now())
	if recovered {
		f.turns.Limit(s.id, s.health.Streams())
		f.o.Metrics.health(s.id, s.health)
		go f.healthChanged(ctx, s.id)
	}
}

// fails notes a failure of a sink, and has the sink probed. It is called with the mutex.
func (f *Follower) fails(ctx context.Context, s *far, failure *sink.Error) {
	before := s.health
	s.health = s.health.Failed(failure, s.target.Retry, f.o.Clock.Now(), f.o.Random())
	f.turns.Limit(s.id, 0)
	f.o.Metrics.health(s.id, s.health)
	if before.Reason != s.health.Reason || !before.Fails() {
		go f.healthChanged(ctx, s.id)
	}
	if !s.probing {
		s.probing = true
		go f.probe(ctx, s)
	}
}

// healthChanged has everybody looked at who says how a sink is doing.
func (f *Follower) healthChanged(ctx context.Context, id string) {
	f.lookAtSettings(ctx, id)
	f.lookAtPending(ctx, id)
	f.wake()
}

// probe asks a sink that fails until it answers; then one stream is tried.
func (f *Follower) probe(ctx context.Context, s *far) {
	for {
		f.mutex.Lock()
		wait, gone := s.health.NextTry.Sub(f.o.Clock.Now()), f.sinks[s.id] != s
		f.mutex.Unlock()
		if gone {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-f.o.Clock.After(max(wait, 0)):
		}
		failure := f.ask(ctx, s)
		if ctx.Err() != nil {
			return
		}
		f.mutex.Lock()
		if f.sinks[s.id] != s { // changed while it was asked: the one of now has a health of its own
			f.mutex.Unlock()
			return
		}
		if failure != nil {
			f.fails(ctx, s, failure)
			f.mutex.Unlock()
			continue
		}
		s.probing = false
		f.answered(ctx, s)
		f.mutex.Unlock()
		return
	}
}

// answered notes that a sink has answered a probe. It is called with the mutex.
func (f *Follower) answered(ctx context.Context, s *far) {
	s.health = s.health.Answered(f.o.Clock.Now())
	f.turns.Limit(s.id, s.health.Streams())
	f.idle(ctx, s.id)
	f.wake()
}

// idle ends the trial of a sink for which nobody waits any longer: nothing would ever end the trial otherwise. It is called with the mutex.
func (f *Follower) idle(ctx context.Context, id string) {
	s := f.sinks[id]
	if s == nil || s.health.Phase != plan.Trial || f.turns.Waiting(id) > 0 {
		return
	}
	s.health = s.health.Idle(f.o.Clock.Now())
	f.turns.Limit(id, s.health.Streams())
	f.o.Metrics.health(id, s.health)
	go f.healthChanged(ctx, id)
}

// ask probes a sink once.
func (f *Follower) ask(ctx context.Context, s *far) *sink.Error {
	c, err := f.use(s)
	if errors.Is(err, errChanged) {
		return nil
	}
	if err != nil {
		return sink.AsError(err)
	}
	defer f.release(c)
	timeout := s.target.Config.Timeout
	if timeout <= 0 {
		timeout = probeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.sink.Probe(ctx); err != nil {
		return sink.AsError(err)
	}
	return nil
}

const probeTimeout = 30 * time.Second

// pace bounds the records of a second. Nil: no bound.
type pace struct {
	perSecond int
	clock     clock.Clock
	next      time.Time
}

func newPace(perSecond int, c clock.Clock) *pace {
	if perSecond <= 0 {
		return nil
	}
	return &pace{perSecond: perSecond, clock: c}
}

// wait is how long to wait after some records. Callers hold the mutex of the Follower.
func (p *pace) wait(records int) time.Duration {
	if p == nil {
		return 0
	}
	now := p.clock.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(records) * time.Second / time.Duration(p.perSecond))
	return p.next.Sub(now)
}
