// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

const (
	// raise is how far the server's counter is put above etcd's, which continues to count.
	raise = 1_000_000
	// lookAgain is how often something is looked at that is waited for.
	lookAgain = 200 * time.Millisecond
	// routed is how often in a row the server must answer before the freeze ends: there may be several kube-apiservers.
	routed = 3
	// informersTime is how long the cluster's own informers are waited for.
	informersTime = 3 * time.Minute
	// probeName is a report without an owner.
	probeName = policyName + "-probe"
	// shownProblems is how many lines are printed of a long list.
	shownProblems = 50
)

// errTooLong says that the freeze was over before everything was moved.
var errTooLong = fmt.Errorf("what was left could not be moved in the %s that writes may be refused", freezeWork)

// move is the move of one group.
type move struct {
	*cluster

	options  *options
	progress *progress
	server   *reportsServer
	seen     *groupSeen
	group    *group

	// manager is the field manager whose writes pass the freeze.
	manager  string
	objects  map[place]copied
	problems map[place]string
	// noted are the uids of the record: what is sent is noted before.
	noted map[string]bool
	// kept are uids that stay at the server though they are gone from etcd, see copied.Deleting.
	kept map[string]bool
}

// run does what is left to do. Each step can be done again.
func (m *move) run(ctx context.Context) error {
	for {
		what := next(m.seen, m.options.keepCRDs)
		if err := refusal(m.seen, what, m.options.session.Program); err != nil {
			return err
		}
		var err error
		switch what {
		case stepCopy:
			err = m.copyAndSwitch(ctx)
		case stepSettle:
			err = m.settle(ctx)
		case stepCompare:
			err = m.compare(ctx)
		case stepClean:
			err = m.clean(ctx)
		case stepNothing, stepForeign, stepHidden, stepUnreadable:
			return m.finish(ctx)
		}
		if err != nil {
			return err
		}
		if m.seen, err = m.look(ctx, *m.group, m.server); err != nil {
			return err
		}
	}
}

func (m *move) note(ctx context.Context, phase phase) error {
	m.seen.state.Phase = phase
	return m.cluster.note(ctx, m.server, m.group, &m.seen.state)
}

// finish drops the record of a group that is moved.
func (m *move) finish(ctx context.Context) error {
	noted := &m.seen.state
	if noted.Phase != phaseDone && noted.Phase != phaseCompared {
		return nil
	}
	if err := m.dropRecord(ctx, m.server, m.group, 0, noted.Records); err != nil {
		return err
	}
	if noted.Records == 0 && noted.Phase == phaseDone {
		return nil
	}
	noted.Records = 0
	return m.note(ctx, phaseDone)
}

// copyAndSwitch moves the group up to and with the switch.
func (m *move) copyAndSwitch(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	round := func(ctx context.Context) (int, error) {
		r, _, err := m.round(ctx)
		if err == nil {
			err = m.refused()
		}
		return r.size(), err
	}
	err := m.followAndSwitch(ctx, round, m.frozen)
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%w; nothing is switched: run it again when there are fewer writes, or with --no-freeze, which may lose the writes of a second", err)
	}
	return err
}

// followAndSwitch follows the changes in rounds until few are left, and then switches while writes are refused. A switch that takes too long is
// tried again after another round; its last error is errTooLong then.
func (m *move) followAndSwitch(ctx context.Context, round func(context.Context) (changes int, err error), frozen func(context.Context) error) error {
	for range maxRounds {
		changes, err := round(ctx)
		if err != nil {
			return err
		}
		if changes <= calm {
			break
		}
	}
	var err error
	for attempt := range freezes {
		if attempt > 0 {
			m.progress.say("%s: %v; trying again", m.group.name, errTooLong)
			if _, err := round(ctx); err != nil {
				return err
			}
		}
		if err = frozen(ctx); !errors.Is(err, errTooLong) {
			return err
		}
	}
	return err
}

// begin removes what an earlier run has copied and what has gone since, and copies everything.
func (m *move) begin(ctx context.Context) error {
	m.manager = fieldManager + "-" + strings.ToLower(rand.Text())
	m.objects, m.problems, m.noted, m.kept = map[place]copied{}, map[place]string{}, map[string]bool{}, map[string]bool{}
	earlier, err := m.readRecord(ctx, m.server, m.group, m.seen.state.Records)
	if err != nil {
		return err
	}
	for _, line := range earlier {
		m.noted[line.Object.UID] = true
		if line.Object.Deleting {
			m.kept[line.Object.UID] = true
		}
	}
	there, _, err := m.allPresent(ctx)
	if err != nil {
		return err
	}
	if err := m.removeAll(ctx, leftovers(earlier, there, m.kept)); err != nil {
		return err
	}
	fresh := map[place]copied{}
	for at, object := range there {
		fresh[at] = copied{UID: object.uid}
	}
	if err := m.noteAhead(ctx, fresh); err != nil {
		return err
	}
	all, done := int64(len(there)), int64(0)
	m.progress.say("%s: copying %d reports", m.group.name, all)
	for i := range m.seen.sources {
		s := &m.seen.sources[i]
		err := m.each(ctx, m.group, s, func(page []unstructured.Unstructured) error {
			done += int64(len(page))
			err := m.importAll(ctx, s, page)
			m.progress.count("copied", done, all)
			return err
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", s.resource.plural, err)
		}
	}
	return nil
}

// allPresent lists the metadata of all objects of the CRDs, and the highest resourceVersion.
func (m *move) allPresent(ctx context.Context) (there map[place]present, version int64, err error) {
	there = map[place]present{}
	for i := range m.seen.sources {
		now, err := m.present(ctx, m.group, &m.seen.sources[i], there)
		if err != nil {
			return nil, 0, err
		}
		version = max(version, now)
	}
	return there, version, nil
}

// noteAhead notes what will be sent: if it is gone when the move continues later, it is removed from the server.
func (m *move) noteAhead(ctx context.Context, objects map[place]copied) error {
	fresh := maps.Clone(objects)
	maps.DeleteFunc(fresh, func(_ place, object copied) bool { return m.noted[object.UID] })
	if len(fresh) == 0 {
		return nil
	}
	records, err := m.writeRecord(ctx, m.server, m.group, m.seen.state.Records, fresh)
	if err != nil {
		return err
	}
	m.seen.state.Records = records
	if err := m.note(ctx, phaseNew); err != nil {
		return err
	}
	for _, object := range fresh {
		m.noted[object.UID] = true
	}
	return nil
}

// importAll sends objects in batches and keeps what was sent.
func (m *move) importAll(ctx context.Context, s *source, stored []unstructured.Unstructured) error {
	objects := make([]runtime.RawExtension, len(stored))
	records := make([]copied, len(stored))
	places := make([]place, len(stored))
	sizes := make([]int, len(stored))
	ahead := map[place]copied{}
	for i := range stored {
		places[i] = place{s.resource.plural, stored[i].GetNamespace(), stored[i].GetName()}
		sent, err := exported(m.group, &stored[i])
		if err == nil {
			records[i], err = oneOf(&stored[i], sent)
		}
		if err == nil {
			objects[i], err = raw(sent)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", places[i], err)
		}
		sizes[i] = len(objects[i].Raw)
		ahead[places[i]] = records[i]
	}
	if err := m.noteAhead(ctx, ahead); err != nil {
		return err
	}
	first := 0
	for _, end := range batches(sizes) {
		status, err := m.send(ctx, &reportsv1alpha1.ReportImportSpec{Objects: objects[first:end]}, false)
		if err != nil {
			return fmt.Errorf("write to the reports API server: %w", err)
		}
		if len(status.Objects) != end-first {
			return fmt.Errorf("the reports API server has answered for %d of %d reports", len(status.Objects), end-first)
		}
		for i := range status.Objects {
			at := places[first+i]
			m.objects[at] = records[first+i]
			delete(m.problems, at)
			if result := &status.Objects[i]; result.Result == reportsv1alpha1.ImportConflict || result.Result == reportsv1alpha1.ImportInvalid {
				m.problems[at] = result.Message
			}
		}
		first = end
	}
	return nil
}

// round brings the server to what the CRDs have now. It returns what was to be done, and the highest resourceVersion.
func (m *move) round(ctx context.Context) (r round, version int64, err error) {
	there, version, err := m.allPresent(ctx)
	if err != nil {
		return r, 0, err
	}
	r = difference(m.objects, there, m.kept)
	var gone []recorded
	for _, at := range r.gone {
		gone = append(gone, recorded{at, m.objects[at]})
	}
	if err := m.removeAll(ctx, gone); err != nil {
		return r, version, err
	}
	return r, version, m.copyChanged(ctx, r.changed)
}

func (m *move) removeAll(ctx context.Context, gone []recorded) error {
	for chunk := range slices.Chunk(gone, batchObjects) {
		spec := &reportsv1alpha1.ReportImportSpec{}
		for _, line := range chunk {
			i := slices.IndexFunc(m.group.resources, func(r resource) bool { return r.plural == line.Place.Resource })
			if i < 0 {
				continue
			}
			spec.Removed = append(spec.Removed, reportsv1alpha1.RemovedReport{
				APIVersion: m.group.name + "/" + m.group.version, Kind: m.group.resources[i].kind,
				Namespace: line.Place.Namespace, Name: line.Place.Name, UID: line.Object.UID,
			})
		}
		if _, err := m.send(ctx, spec, false); err != nil {
			return fmt.Errorf("remove from the reports API server what has gone: %w", err)
		}
		for _, line := range chunk {
			delete(m.objects, line.Place)
			delete(m.problems, line.Place)
		}
	}
	return nil
}

// copyChanged sends objects again: a few one by one, many as they come in pages.
func (m *move) copyChanged(ctx context.Context, changed []place) error {
	for i := range m.seen.sources {
		s := &m.seen.sources[i]
		mine := slices.DeleteFunc(slices.Clone(changed), func(at place) bool { return at.Resource != s.resource.plural })
		var err error
		if len(mine) <= fewChanged {
			err = m.copyEach(ctx, s, mine)
		} else {
			wanted := map[place]bool{}
			for _, at := range mine {
				wanted[at] = true
			}
			var done int64
			err = m.each(ctx, m.group, s, func(page []unstructured.Unstructured) error {
				page = slices.DeleteFunc(page, func(u unstructured.Unstructured) bool {
					return !wanted[place{s.resource.plural, u.GetNamespace(), u.GetName()}]
				})
				done += int64(len(page))
				m.progress.count("followed changes", done, int64(len(mine)))
				return m.importAll(ctx, s, page)
			})
		}
		if err != nil {
			return fmt.Errorf("follow changes of %s: %w", s.resource.plural, err)
		}
	}
	return nil
}

func (m *move) copyEach(ctx context.Context, s *source, places []place) error {
	var objects []unstructured.Unstructured
	for _, at := range places {
		u, err := m.reader(m.group, s).Namespace(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the next round sees that it has gone
		}
		if err != nil {
			return err
		}
		objects = append(objects, *u)
	}
	return m.importAll(ctx, s, objects)
}

// refused ends the move before the switch where the server has refused reports.
func (m *move) refused() error {
	if len(m.problems) == 0 {
		return nil
	}
	var lines []string
	for at, message := range m.problems {
		lines = append(lines, at.String()+": "+message)
	}
	slices.Sort(lines)
	m.list(lines)
	return session.Exit(
		codeDifferent,
		fmt.Errorf("%d reports of %s cannot be moved, see above. Nothing is switched; change or delete them, and run this again", len(lines), m.group.name),
	)
}

// list prints problems, not all of very many.
func (m *move) list(lines []string) {
	for i, line := range lines {
		if i == shownProblems {
			m.progress.say("  and %d more", len(lines)-i)
			break
		}
		m.progress.say("  %s", line)
	}
}

// frozen refuses writes, moves what is left, and switches.
func (m *move) frozen(ctx context.Context) (err error) {
	if m.options.noFreeze {
		return m.switchNow(ctx)
	}
	if err := m.unfreeze(ctx, m.server.namespace); err != nil {
		return err // what an earlier run has left
	}
	defer func() { err = errors.Join(err, m.unfreeze(ctx, m.server.namespace)) }()
	frozen, cancel := context.WithTimeoutCause(ctx, freezeWork, errTooLong)
	defer cancel()
	m.progress.say("%s: writes are refused for some seconds", m.group.name)
	err = m.freeze(frozen, m.server, m.group, m.manager)
	if err == nil {
		err = m.awaitFreeze(frozen)
	}
	if err == nil {
		err = m.switchNow(frozen)
	}
	switch {
	case err == nil || !errors.Is(context.Cause(frozen), errTooLong):
		return err
	case m.seen.owner == ownerOurs:
		m.progress.say("warning: kube-apiserver was slow to ask the reports API server; writes of the last second may be lost")
		return nil
	}
	return errTooLong
}

// awaitFreeze waits until a write is refused.
func (m *move) awaitFreeze(ctx context.Context) error {
	s := &m.seen.sources[0]
	return wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		_, err := m.reader(m.group, s).
			Namespace(m.probeNamespace(s)).
			Create(ctx, m.probe(s.resource, s.version), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && ctx.Err() != nil {
			return false, ctx.Err()
		}
		return err != nil && strings.Contains(err.Error(), policyMessage), nil
	})
}

func (m *move) probeNamespace(s *source) string {
	if s.resource.namespaced {
		return m.server.namespace
	}
	return ""
}

// probe is a report that is written to see what becomes of it.
func (m *move) probe(r resource, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": m.group.name + "/" + version, "kind": r.kind, "metadata": map[string]any{"name": probeName},
	}}
}

// switchNow moves what is left, notes it, and gives the group to the server.
func (m *move) switchNow(ctx context.Context) error {
	var version int64
	for {
		r, now, err := m.round(ctx)
		if err != nil {
			return err
		}
		version = max(version, now)
		if err := m.refused(); err != nil {
			return err
		}
		if r.size() == 0 || m.options.noFreeze {
			break
		}
	}
	if err := m.writeFinalRecord(ctx); err != nil {
		return err
	}
	if err := m.clearAllFinalizers(ctx); err != nil {
		return err
	}
	status, err := m.send(ctx, &reportsv1alpha1.ReportImportSpec{MinResourceVersion: new(version + raise)}, false)
	if err != nil {
		return fmt.Errorf("raise the counter of the reports API server: %w", err)
	}
	m.seen.state.Counter = status.ResourceVersion
	if err := m.note(ctx, phaseSwitching); err != nil {
		return err
	}
	if err := m.switchOver(ctx, m.group, m.server); err != nil {
		return err
	}
	m.seen.owner = ownerOurs
	if err := m.awaitRouted(ctx); err != nil {
		return fmt.Errorf("wait until the reports API server answers for %s: %w", m.group.name, err)
	}
	m.progress.say("%s: the reports API server responds", m.group.name)
	return nil
}

// writeFinalRecord replaces the record by what was copied in the end, with its hashes.
func (m *move) writeFinalRecord(ctx context.Context) error {
	before := m.seen.state.Records
	records, err := m.writeRecord(ctx, m.server, m.group, 0, m.objects)
	if err != nil {
		return err
	}
	m.seen.state.Records = records
	if err := m.note(ctx, phaseNew); err != nil {
		return err
	}
	return m.dropRecord(ctx, m.server, m.group, records, before)
}

func (m *move) clearAllFinalizers(ctx context.Context) error {
	for i := range m.seen.sources {
		s := &m.seen.sources[i]
		there := map[place]present{}
		if _, err := m.present(ctx, m.group, s, there); err != nil {
			return err
		}
		for at, object := range there {
			if !object.finalizers {
				continue
			}
			if err := m.clearFinalizers(ctx, m.group, s, at, m.manager); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitRouted waits until kube-apiserver asks the server: its lists have numbers that etcd does not have yet.
func (m *move) awaitRouted(ctx context.Context) error {
	counter, err := parseCounter(m.seen.state.Counter)
	if err != nil {
		return err
	}
	inARow := 0
	return wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		list, err := m.dynamic.Resource(m.group.served(m.seen.sources[0].resource)).List(ctx, metav1.ListOptions{Limit: 1})
		inARow++
		if err != nil {
			inARow = 0
			return false, ctx.Err()
		}
		if now, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64); err != nil || now < counter {
			inARow = 0
		}
		return inARow >= routed, nil
	})
}

// settle ends the watches on etcd, and waits for the cluster's own informers.
func (m *move) settle(ctx context.Context) error {
	if err := m.unfreeze(ctx, m.server.namespace); err != nil {
		return err // what a run has left that was killed
	}
	if err := m.awaitRouted(ctx); err != nil {
		return fmt.Errorf("wait until the reports API server answers for %s: %w", m.group.name, err)
	}
	for i := range m.seen.sources {
		if err := m.unserve(ctx, m.group, m.seen.sources[i].resource); err != nil {
			return err
		}
	}
	m.progress.say("%s: the watches on etcd have ended; waiting for the garbage collector, up to %s", m.group.name, informersTime)
	if err := m.awaitCollector(ctx); err != nil {
		return err
	}
	return m.note(ctx, phaseSettled)
}

// awaitCollector waits until the garbage collector has listed from the server: it deletes a report whose owner there
// never was. The quota controller has the same informers.
func (m *move) awaitCollector(ctx context.Context) error {
	i := slices.IndexFunc(m.seen.sources, func(s source) bool { return s.resource.namespaced })
	if i < 0 {
		return nil
	}
	probe := m.probe(m.seen.sources[i].resource, m.group.version)
	probe.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: stateName, UID: "00000000-0000-4000-8000-000000000000"}})
	reports := m.dynamic.Resource(m.group.served(m.seen.sources[i].resource)).Namespace(m.server.namespace)
	_, err := reports.Create(ctx, probe, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		m.progress.say("warning: whether the garbage collector sees the reports cannot be tried: %v", m.options.session.Explain(err))
		return ctx.Err()
	}
	err = wait.PollUntilContextTimeout(ctx, lookAgain, informersTime, true, func(ctx context.Context) (bool, error) {
		_, err := reports.Get(ctx, probeName, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err == nil {
		return nil
	}
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfreezeTime)
	defer cancel()
	if gone := reports.Delete(removing, probeName, metav1.DeleteOptions{}); gone != nil && !apierrors.IsNotFound(gone) {
		m.progress.say("warning: delete %s %s in namespace %s by hand: %v", m.seen.sources[i].resource.plural, probeName, m.server.namespace, gone)
	}
	if ctx.Err() != nil {
		return err
	}
	m.progress.say(
		"warning: the garbage collector has not seen the reports within %s: if it does not within the next half hour, restart kube-controller-manager",
		informersTime,
	)
	return nil
}

// compare holds what was copied against what the server has.
func (m *move) compare(ctx context.Context) error {
	lines, err := m.readRecord(ctx, m.server, m.group, m.seen.state.Records)
	if err != nil {
		return err
	}
	want := map[place]copied{}
	for _, line := range lines {
		want[line.Place] = line.Object
	}
	m.progress.say("%s: comparing %d reports", m.group.name, len(want))
	have := map[place]found{}
	for i := range m.seen.sources {
		r := m.seen.sources[i].resource
		if err := m.readSwitched(ctx, r, hashOf, have, int64(len(want))); err != nil {
			return fmt.Errorf("list %s of the reports API server: %w", r.plural, err)
		}
	}
	wrong := differences(want, have)
	if len(wrong) == 0 {
		return m.note(ctx, phaseCompared)
	}
	m.list(wrong)
	var names []string
	for _, s := range m.seen.sources {
		names = append(names, m.group.crd(s.resource))
	}
	return session.Exit(
		codeDifferent,
		fmt.Errorf("%d of %d reports of %s are not as they were, see above. The CRDs and their objects are kept; if you expect these differences, "+
			"delete the CRDs: kubectl delete crd %s", len(wrong), len(want), m.group.name, strings.Join(names, " ")),
	)
}

// parseCounter reads the counter that a server had at the switch.
func parseCounter(text string) (int64, error) {
	counter, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the counter %q is not a number", text)
	}
	return counter, nil
}

// readSwitched reads into have what there was of a resource at the switch, or what there is now if the switch is too long ago. The lists go to
// whatever serves the group; hash is that of one object there.
func (m *move) readSwitched(ctx context.Context, r resource, hash func(*unstructured.Unstructured) (string, error), have map[place]found, all int64) error {
	counter, err := parseCounter(m.seen.state.Counter)
	if err != nil {
		return err
	}
	read := func(options metav1.ListOptions) (metav1.ListInterface, error) {
		page, err := m.dynamic.Resource(m.group.served(r)).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			u := &page.Items[i]
			hash, err := hash(u)
			if err != nil {
				return nil, err
			}
			version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
			if err != nil {
				return nil, err
			}
			have[place{r.plural, u.GetNamespace(), u.GetName()}] = found{uid: string(u.GetUID()), hash: hash, since: version > counter}
		}
		m.progress.count("compared", int64(len(have)), all)
		return page, nil
	}
	err = pages(pageObjects, metav1.ListOptions{ResourceVersion: m.seen.state.Counter, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, read)
	if apierrors.IsResourceExpired(err) {
		m.progress.say("  the state of the switch is too long ago: what was changed since is not compared")
		err = pages(pageObjects, metav1.ListOptions{}, read)
	}
	return err
}

// clean deletes the CRDs.
func (m *move) clean(ctx context.Context) error {
	if m.options.keepCRDs {
		m.progress.say("%s: the CRDs are kept, without versions that are served", m.group.name)
		return m.note(ctx, phaseDone)
	}
	for i := range m.seen.sources {
		name := m.group.crd(m.seen.sources[i].resource)
		m.progress.say("%s: deleting CRD %s with its objects in etcd", m.group.name, name)
		if err := m.dynamic.Resource(crds).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete CRD %s: %w", name, err)
		}
		if err := m.waitGone(ctx, name); err != nil {
			return fmt.Errorf("wait until CRD %s is gone: %w", name, err)
		}
	}
	return m.note(ctx, phaseDone)
}

// askAgain is how often kube-apiserver is asked again to delete the objects of a CRD.
const askAgain = time.Second

// waitGone waits until a CRD is gone. Every ten seconds it says what the API server still waits for: the CRD stays as long as
// one of its objects does.
func (m *move) waitGone(ctx context.Context, name string) error {
	clock := m.options.session.Now
	say, ask, asked := clock().Add(printed), clock(), 0
	return wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		crd, err := m.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if err == nil && gaveUp(crd) && !clock().Before(ask) {
			asked, ask = asked+1, clock().Add(askAgain)
			err = m.remind(ctx, name, asked)
		}
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if now := clock(); now.After(say) {
			say = now.Add(printed)
			m.progress.say("  CRD %s is not gone yet: %s", name, whyStill(crd, err))
		}
		return false, nil
	})
}

// terminating is the condition that says how the deletion of a CRD stands; nil if there is none.
func terminating(crd *unstructured.Unstructured) map[string]any {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return nil // not a list
	}
	for _, each := range conditions {
		if condition, isMap := each.(map[string]any); isMap && condition["type"] == "Terminating" {
			return condition
		}
	}
	return nil
}

// gaveUp tells whether a try of kube-apiserver to delete the objects of a CRD has failed.
func gaveUp(crd *unstructured.Unstructured) bool {
	reason := terminating(crd)["reason"]
	return reason == "InstanceDeletionFailed" || reason == "InstanceDeletionCheck"
}

// whyStill says why a CRD that was deleted is still there. An error of the request is one reason: the API server may be away for a time.
func whyStill(crd *unstructured.Unstructured, err error) string {
	if err != nil {
		return err.Error()
	}
	if condition := terminating(crd); condition != nil {
		return fmt.Sprintf("%v: %v", condition["reason"], condition["message"])
	}
	return "its deletion has not begun"
}
