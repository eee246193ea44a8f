// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// back moves one group from the server to its CRDs.
//
//	open a version of the CRDs that no other client uses ─► copy in rounds ─► refuse writes, the last round ─► switch
//	─► end the server's watches ─► close the version ─► compare ─► remove from the server
type back struct {
	*move

	// written are the reports in etcd, by the places of those at the server.
	written map[place]written
	// waiting are reports whose owners are reports that have no new uid yet.
	waiting map[place]bool
}

// written is a report as it was written to etcd.
type written struct {
	uid, version string // at the server
	now          string // the uid in etcd
	hash         string
}

// runBack takes the remaining steps. It starts again if the switch was not made.
func (m *move) runBack(ctx context.Context) error {
	b := &back{move: m, written: map[place]written{}, waiting: map[place]bool{}}
	what := nextBack(m.seen)
	if what == backNothing {
		return nil
	}
	if what == backMove {
		if err := b.openAll(ctx); err != nil {
			return err
		}
		if err := b.copyAndSwitch(ctx); err != nil {
			return err
		}
	}
	return b.settle(ctx)
}

// openAll opens the version by which the CRDs are written while the server has the group.
func (b *back) openAll(ctx context.Context) error {
	for _, r := range b.group.resources {
		if err := b.changeVersions(ctx, b.group, r, opened); err != nil {
			return err
		}
		err := wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
			_, err := b.dynamic.Resource(b.group.inTransit(r)).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil, nil // until kube-apiserver serves the version
		})
		if err != nil {
			return fmt.Errorf("wait until CRD %s is served: %w", b.group.crd(r), err)
		}
	}
	return nil
}

func (b *back) copyAndSwitch(ctx context.Context) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	err := b.followAndSwitch(ctx, b.round, b.frozen)
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%w; nothing is switched: run it again when there are fewer writes", err)
	}
	return err
}

// begin copies everything, and deletes from etcd what the server does not have.
func (b *back) begin(ctx context.Context) error {
	there, err := b.atServer(ctx)
	if err != nil {
		return err
	}
	b.progress.say("%s: copying %d reports", b.group.name, len(there))
	for _, r := range b.group.resources {
		if err := b.clear(ctx, r, there); err != nil {
			return err
		}
		err := b.each(ctx, b.group, &source{resource: r, version: b.group.version}, func(page []unstructured.Unstructured) error {
			return b.writePage(ctx, r, page, there)
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", r.plural, err)
		}
	}
	return nil
}

// clear deletes from etcd what must not stay as it is.
func (b *back) clear(ctx context.Context, r resource, there map[place]present) error {
	left := map[place]present{}
	if _, err := b.present(ctx, b.group, b.transit(r), left); err != nil {
		return err
	}
	for at, object := range left {
		// What has the uid of the server's, since the CRD was kept, gets a new one: the garbage collector knows one object by
		// a uid, and takes it for gone as soon as one of the groups that have shown it does not any more.
		if wanted, ok := there[at]; ok && wanted.uid != object.uid {
			continue
		}
		if err := b.remove(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// writePage writes those reports of a page that belong to the group.
func (b *back) writePage(ctx context.Context, r resource, page []unstructured.Unstructured, there map[place]present) error {
	for i := range page {
		at := place{r.plural, page[i].GetNamespace(), page[i].GetName()}
		if _, mine := there[at]; !mine {
			continue
		}
		if err := b.write(ctx, at, &page[i]); err != nil {
			return err
		}
		b.progress.count("copied", int64(len(b.written)), int64(len(there)))
	}
	return nil
}

// transit is the CRD as it is written to.
func (b *back) transit(r resource) *source { return &source{resource: r, version: transitVersion} }

// atServer lists the reports of the server that belong to the group.
func (b *back) atServer(ctx context.Context) (map[place]present, error) {
	all := map[place]present{}
	for _, r := range b.group.resources {
		err := b.eachHome(ctx, b.group, r, func(m *metav1.PartialObjectMetadata) {
			all[place{r.plural, m.Namespace, m.Name}] = present{string(m.UID), m.ResourceVersion, len(m.Finalizers) > 0}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// round copies the server's present objects to etcd, and returns how many it had to copy.
func (b *back) round(ctx context.Context) (changes int, err error) {
	there, err := b.atServer(ctx)
	if err != nil {
		return 0, err
	}
	for at, object := range there {
		if before, ok := b.written[at]; ok && before.uid == object.uid && before.version == object.version {
			continue
		}
		changes++
		r := b.resourceOf(at)
		u, err := b.dynamic.Resource(b.group.served(r)).Namespace(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the next round sees that it has gone
		}
		if err == nil {
			err = b.write(ctx, at, u)
		}
		if err != nil {
			return changes, fmt.Errorf("follow changes of %s: %w", r.plural, err)
		}
	}
	for at := range b.written {
		if _, ok := there[at]; ok {
			continue
		}
		changes++
		if err := b.remove(ctx, at); err != nil {
			return changes, err
		}
		delete(b.written, at)
		delete(b.waiting, at)
	}
	return changes, nil
}

func (b *back) resourceOf(at place) resource {
	i := slices.IndexFunc(b.group.resources, func(r resource) bool { return r.plural == at.Resource })
	return b.group.resources[i]
}

// write makes the report in etcd what it is at the server. etcd's has another uid, and begins its life now.
func (b *back) write(ctx context.Context, at place, u *unstructured.Unstructured) error {
	sent, waits := returned(b.group, u, b.newUID)
	hash, err := returnedHash(sent)
	if err != nil {
		return err
	}
	reports := b.dynamic.Resource(b.group.inTransit(b.resourceOf(at))).Namespace(at.Namespace)
	existing, err := reports.Get(ctx, at.Name, metav1.GetOptions{})
	var stored *unstructured.Unstructured
	switch {
	case apierrors.IsNotFound(err):
		stored, err = reports.Create(ctx, sent, metav1.CreateOptions{FieldManager: fieldManager})
	case err == nil:
		sent.SetUID(existing.GetUID())
		sent.SetResourceVersion(existing.GetResourceVersion())
		stored, err = reports.Update(ctx, sent, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err == nil {
		err = b.keepManagers(ctx, at, u.GetManagedFields())
	}
	if err == nil && u.GetDeletionTimestamp() != nil && stored.GetDeletionTimestamp() == nil {
		err = reports.Delete(ctx, at.Name, metav1.DeleteOptions{}) // its finalizers keep it
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", at, err)
	}
	b.written[at] = written{uid: string(u.GetUID()), version: u.GetResourceVersion(), now: string(stored.GetUID()), hash: hash}
	delete(b.waiting, at)
	if waits {
		b.waiting[at] = true
	}
	return nil
}

// keepManagers has the report in etcd say who has written which field, as it says at the server.
func (b *back) keepManagers(ctx context.Context, at place, managers []metav1.ManagedFieldsEntry) error {
	if len(managers) == 0 {
		return nil
	}
	patch, err := managersPatch(managers)
	if err != nil {
		return err
	}
	_, err = b.dynamic.Resource(b.group.inTransit(b.resourceOf(at))).
		Namespace(at.Namespace).
		Patch(ctx, at.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// newUID is the uid in etcd of a report by that at the server; "" if there is none.
func (b *back) newUID(uid string) string {
	for _, object := range b.written {
		if object.uid == uid {
			return object.now
		}
	}
	return ""
}

// remove deletes a report from etcd, whatever its finalizers: at the server it has gone.
func (b *back) remove(ctx context.Context, at place) error {
	reports := b.dynamic.Resource(b.group.inTransit(b.resourceOf(at))).Namespace(at.Namespace)
	_, err := reports.Patch(ctx, at.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: fieldManager})
	if err == nil {
		err = reports.Delete(ctx, at.Name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s from etcd: %w", at, err)
	}
	return nil
}

// frozen has the server refuse writes, copies what is left, and switches.
func (b *back) frozen(ctx context.Context) (err error) {
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfreezeTime)
		defer cancel()
		if _, failed := b.send(after, &reportsv1alpha1.ReportImportSpec{FreezeSeconds: new(int32(0))}, false); failed != nil {
			err = errors.Join(err, fmt.Errorf("let writes through again (the server does so by itself after %s): %w", freezeTime, failed))
		}
	}()
	frozen, cancel := context.WithTimeoutCause(ctx, freezeWork, errTooLong)
	defer cancel()
	b.progress.say("%s: writes are refused for some seconds", b.group.name)
	_, err = b.send(frozen, &reportsv1alpha1.ReportImportSpec{FreezeSeconds: new(int32(freezeTime / time.Second))}, false)
	if err == nil {
		err = b.switchNow(frozen)
	}
	if err != nil && errors.Is(context.Cause(frozen), errTooLong) && b.seen.owner != ownerLocal {
		return errTooLong
	}
	return err
}

func (b *back) switchNow(ctx context.Context) error {
	for {
		changes, err := b.round(ctx)
		if err != nil {
			return err
		}
		if changes == 0 {
			break
		}
	}
	if err := b.adopt(ctx); err != nil {
		return err
	}
	var version int64
	lines := map[place]copied{}
	for _, r := range b.group.resources {
		now, err := b.present(ctx, b.group, b.transit(r), map[place]present{})
		if err != nil {
			return err
		}
		version = max(version, now)
	}
	for at, object := range b.written {
		lines[at] = copied{UID: object.uid, Hash: object.hash}
	}
	before := b.seen.state.Records
	records, err := b.writeRecord(ctx, b.server, b.group, 0, lines)
	if err != nil {
		return err
	}
	if err := b.dropRecord(ctx, b.server, b.group, records, before); err != nil {
		return err
	}
	b.seen.state.Records, b.seen.state.Counter = records, strconv.FormatInt(version, 10)
	if err := b.note(ctx, phaseReturning); err != nil {
		return err
	}
	_, err = b.dynamic.Resource(apiServices).
		Patch(ctx, b.group.apiService(), types.MergePatchType, []byte(giveBack), metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("give APIService %s back: %w", b.group.apiService(), err)
	}
	b.seen.owner = ownerLocal
	return b.awaitLocal(ctx)
}

// adopt gives reports whose owners are reports the owners' new uids.
func (b *back) adopt(ctx context.Context) error {
	for at := range b.waiting {
		u, err := b.dynamic.Resource(b.group.served(b.resourceOf(at))).Namespace(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		if err == nil {
			err = b.write(ctx, at, u)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if b.waiting[at] {
			b.progress.say("warning: %s belongs to a report that is not moved, and has no owner from now on", at)
		}
	}
	return nil
}

// awaitLocal waits until kube-apiserver answers from etcd.
func (b *back) awaitLocal(ctx context.Context) error {
	ours := map[string]bool{}
	for _, object := range b.written {
		ours[object.uid] = object.now != object.uid
	}
	inARow := 0
	err := wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		inARow++
		service, err := b.dynamic.Resource(apiServices).Get(ctx, b.group.apiService(), metav1.GetOptions{})
		if err != nil || !isLocal(service) {
			inARow = 0
			return false, ctx.Err()
		}
		for _, r := range b.group.resources {
			list, err := b.dynamic.Resource(b.group.served(r)).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil || len(list.Items) > 0 && ours[string(list.Items[0].GetUID())] {
				inARow = 0
			}
		}
		return inARow >= routed, ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("wait until the CRDs answer for %s: %w", b.group.name, err)
	}
	return nil
}

// isLocal reports whether kube-apiserver knows that it has a group itself.
func isLocal(service *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		condition, ok := item.(map[string]any)
		return ok && condition["type"] == "Available" && condition["reason"] == "Local"
	})
}

// settle does what follows the switch.
func (b *back) settle(ctx context.Context) error {
	if err := b.awaitLocal(ctx); err != nil {
		return err
	}
	// Whoever watches at the server has its numbers, for which the CRDs would have them wait in silence: all list anew.
	status, err := b.send(ctx, &reportsv1alpha1.ReportImportSpec{MinResourceVersion: new(int64(1))}, true)
	if err != nil {
		return fmt.Errorf("ask the reports API server for its counter: %w", err)
	}
	counter, err := parseCounter(status.ResourceVersion)
	if err != nil {
		return err
	}
	if _, err := b.send(ctx, &reportsv1alpha1.ReportImportSpec{FreezeSeconds: new(int32(0)), MinResourceVersion: new(counter + 1)}, false); err != nil {
		return fmt.Errorf("end the watches at the reports API server: %w", err)
	}
	b.progress.say("%s: the CRDs answer; waiting for the garbage collector, up to %s", b.group.name, informersTime)
	for _, r := range b.group.resources {
		if err := b.changeVersions(ctx, b.group, r, closed); err != nil {
			return err
		}
	}
	if err := b.awaitCollector(ctx); err != nil {
		return err
	}
	lines, err := b.readRecord(ctx, b.server, b.group, b.seen.state.Records)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, lines); err != nil {
		return err
	}
	b.progress.say("%s: removing %d reports from the server", b.group.name, len(lines))
	if err := b.removeAll(ctx, lines); err != nil {
		return err
	}
	if err := b.dropRecord(ctx, b.server, b.group, 0, b.seen.state.Records); err != nil {
		return err
	}
	b.seen.state = state{}
	return b.note(ctx, phaseNew)
}

// compare holds what was written against what etcd had at the switch, or has now, where that is too long ago.
func (b *back) compare(ctx context.Context, lines []recorded) error {
	b.progress.say("%s: comparing %d reports", b.group.name, len(lines))
	have := map[place]found{}
	for _, r := range b.group.resources {
		if err := b.readSwitched(ctx, r, returnedHash, have, int64(len(lines))); err != nil {
			return fmt.Errorf("list %s of the CRDs: %w", r.plural, err)
		}
	}
	// In etcd the reports have other uids: they are compared by place and content.
	want := map[place]copied{}
	for _, line := range lines {
		want[line.Place] = copied{UID: have[line.Place].uid, Hash: line.Object.Hash}
	}
	wrong := differences(want, have)
	if len(wrong) == 0 {
		return nil
	}
	b.list(wrong)
	return session.Exit(
		codeDifferent,
		fmt.Errorf("%d of %d reports of %s are not as they were, see above. The server keeps what it had: \"%s reports migrate --back\" compares again, "+
			"and kubectl delete configmap %s in namespace %s leaves it at that",
			len(wrong), len(want), b.group.name, b.options.session.Program, stateName, b.server.namespace),
	)
}

// backAll moves groups from the server to their CRDs.
func (o *options) backAll(ctx context.Context, c *cluster, wanted []group, server *reportsServer) error {
	var all []*groupSeen
	for _, g := range wanted {
		seen, err := c.look(ctx, g, server)
		if err != nil {
			return err
		}
		if nextBack(seen) == backMove {
			if seen.returning, err = c.countHome(ctx, &g); err != nil {
				return err
			}
			seen.counted = true
		}
		if err := refusalBack(seen, o.session.Program); err != nil {
			if seen.owner == ownerForeign {
				return session.Exit(codeForeign, err)
			}
			return err
		}
		all = append(all, seen)
	}
	if err := o.printBack(ctx, c, all, server); err != nil || o.dryRun {
		return err
	}
	for i, seen := range all {
		m := &move{cluster: c, options: o, progress: &progress{session: o.session}, server: server, seen: seen, group: &wanted[i]}
		if err := m.runBack(ctx); err != nil {
			m.progress.erase()
			return err
		}
	}
	_, err := fmt.Fprintf(o.session.Out, "The CRDs have the reports of %s.\n", strings.Join(o.groups, " and "))
	return err
}
