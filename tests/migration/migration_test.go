// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

// written is what a writer knows of a report.
type written struct {
	uid   string
	round string
}

// writer creates, changes and deletes reports of a namespace without end, and knows what must be there.
type writer struct {
	w    *world
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	have   map[string]written
	gone   map[string]bool
	writes int
	failed error
	more   chan struct{}
}

func (w *world) startWriter() *writer {
	ctx, stop := context.WithCancel(w.t.Context())
	r := &writer{w: w, stop: stop, done: make(chan struct{}), have: map[string]written{}, gone: map[string]bool{}, more: make(chan struct{})}
	go func() {
		defer close(r.done)
		for i := int64(0); ctx.Err() == nil && r.err() == nil; i++ {
			r.round(ctx, i)
		}
	}()
	w.t.Cleanup(func() { stop(); <-r.done })
	return r
}

func (r *writer) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// round creates a report, changes an older one, and deletes one that is older still.
func (r *writer) round(ctx context.Context, i int64) {
	reports := r.w.dynamic.Resource(policyReports).Namespace(team)
	name := func(i int64) string { return fmt.Sprintf("written-%d", i) }
	r.do(ctx, name(i), func() (*unstructured.Unstructured, error) {
		u, err := reports.Create(ctx, newReport(policyReports, name(i), 0), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an earlier try was written, and its answer was lost
			return reports.Get(ctx, name(i), metav1.GetOptions{})
		}
		return u, err
	})
	if i >= 3 {
		r.do(ctx, name(i-3), func() (*unstructured.Unstructured, error) {
			u, err := reports.Get(ctx, name(i-3), metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			u.SetLabels(map[string]string{"round": strconv.FormatInt(i, 10)})
			return reports.Update(ctx, u, metav1.UpdateOptions{})
		})
	}
	if i >= 20 {
		r.do(ctx, name(i-20), func() (*unstructured.Unstructured, error) {
			err := reports.Delete(ctx, name(i-20), metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				err = nil // an earlier try has deleted it
			}
			return nil, err
		})
	}
}

// do writes until it is written.
func (r *writer) do(ctx context.Context, name string, write func() (*unstructured.Unstructured, error)) {
	for r.err() == nil {
		u, err := write()
		if ctx.Err() != nil {
			r.mu.Lock()
			delete(r.have, name) // nobody knows whether it was written
			r.mu.Unlock()
			return
		}
		r.mu.Lock()
		switch {
		case err == nil && u == nil:
			delete(r.have, name)
			r.gone[name] = true
		case err == nil:
			r.have[name] = written{string(u.GetUID()), u.GetLabels()["round"]}
		case !refusedForNow(err):
			r.failed = fmt.Errorf("write %s: %w", name, err)
		}
		if err == nil {
			r.writes++
			close(r.more)
			r.more = make(chan struct{})
		}
		r.mu.Unlock()
		if err == nil {
			return
		}
	}
}

// goesOn waits for some more writes.
func (r *writer) goesOn() {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), patience)
	defer cancel()
	for range 5 {
		r.mu.Lock()
		more, failed, writes := r.more, r.failed, r.writes
		r.mu.Unlock()
		if failed != nil {
			r.w.t.Fatal(failed)
		}
		select {
		case <-more:
		case <-ctx.Done():
			r.w.t.Fatalf("writes are refused for ever after %d", writes)
		}
	}
}

// end stops the writer and returns what must be there, and what must not.
func (r *writer) end() (have map[string]written, gone map[string]bool) {
	r.w.t.Helper()
	r.stop()
	<-r.done
	if r.failed != nil {
		r.w.t.Fatal(r.failed)
	}
	return r.have, r.gone
}

// reports is how many reports are moved beside those of the writer.
func reports(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("MIGRATION_REPORTS"))
	if err != nil {
		return 600
	}
	return n
}

// fill writes reports with several clients at once.
func (w *world) fill(n int) map[string]written {
	w.t.Helper()
	var mu sync.Mutex
	have := map[string]written{}
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := c; i < n; i += 8 {
				report := newReport(policyReports, fmt.Sprintf("kept-%05d", i), int64(i))
				if i%100 == 7 {
					report.SetFinalizers([]string{"example.com/keep"})
				}
				u, err := w.dynamic.Resource(policyReports).Namespace(team).Create(w.t.Context(), report, metav1.CreateOptions{})
				if err != nil {
					w.t.Error(err)
					return
				}
				mu.Lock()
				have[u.GetName()] = written{string(u.GetUID()), u.GetLabels()["round"]}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return have
}

// owned is a report that belongs to a ConfigMap.
func (w *world) owned(name string) {
	w.t.Helper()
	owner, err := w.client.CoreV1().ConfigMaps(team).Create(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	report := newReport(policyReports, name, 0)
	report.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID}})
	_, err = w.dynamic.Resource(policyReports).Namespace(team).Create(w.t.Context(), report, metav1.CreateOptions{})
	w.must(err)
}

// TestMigration holds that nothing is lost when reports are moved while they are written, watched and interrupted: each
// step is interrupted once, by Ctrl-C or by the death of the process, and the next call goes on.
// This is row 43 of the fault list of the reports API.
func TestMigration(t *testing.T) {
	w := newWorld(t)
	want := w.fill(reports(t))
	w.owned("owned")
	_, err := w.dynamic.Resource(inCluster(policyReports)).Create(t.Context(), newReport(inCluster(policyReports), "one", 1), metav1.CreateOptions{})
	w.must(err)
	_, err = w.dynamic.Resource(openReports).Namespace(team).Create(t.Context(), newReport(openReports, "open", 1), metav1.CreateOptions{})
	w.must(err)
	doomed, err := w.dynamic.Resource(policyReports).Namespace(team).Get(t.Context(), "kept-00007", metav1.GetOptions{})
	w.must(err)
	w.must(w.dynamic.Resource(policyReports).Namespace(team).Delete(t.Context(), doomed.GetName(), metav1.DeleteOptions{}))

	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, team, nil)
	informer := informers.ForResource(policyReports).Informer()
	informers.Start(t.Context().Done())
	informers.WaitForCacheSync(t.Context().Done())
	writing := w.startWriter()
	writing.goesOn()

	if got := w.migrate(nil, "", "--dry-run"); got.code != 0 || !strings.Contains(got.out, "policyreports.wgpolicyk8s.io") || !strings.Contains(got.out, "copy and switch") {
		t.Fatalf("dry run: %+v", got)
	}
	for _, at := range []struct {
		says   string
		signal os.Signal
	}{
		{"wgpolicyk8s.io: copying", syscall.SIGKILL},
		{"wgpolicyk8s.io: copying", os.Interrupt},
		{"wgpolicyk8s.io: writes are refused", syscall.SIGKILL},
		{"wgpolicyk8s.io: writes are refused", os.Interrupt},
		{"wgpolicyk8s.io: the reports API server responds", syscall.SIGKILL},
		{"wgpolicyk8s.io: the watches on etcd", os.Interrupt},
		{"wgpolicyk8s.io: comparing", os.Interrupt},
		{"wgpolicyk8s.io: deleting", syscall.SIGKILL},
		{"openreports.io: writes are refused", os.Interrupt},
	} {
		got := w.migrate(at.signal, at.says)
		t.Logf("interrupted at %q by %s: exit code %d", at.says, at.signal, got.code)
		if at.signal == os.Interrupt && got.code != 0 && got.code != 130 || strings.Contains(got.err, "cannot be moved") || strings.Contains(got.err, "not as they were") {
			t.Fatalf("interrupted at %q: %+v", at.says, got)
		}
		// Whoever writes is let through again, though nobody has gone on with the move.
		writing.goesOn()
	}
	got := w.migrate(nil, "")
	if got.code != 0 || !strings.Contains(got.out, "has all reports of wgpolicyk8s.io and openreports.io") {
		t.Fatalf("the last call: %+v", got)
	}
	writing.goesOn()
	have, gone := writing.end()
	maps.Copy(want, have)
	w.compare(want, gone)
	w.until("the informer to have what the list has", func(context.Context) (bool, error) {
		return len(informer.GetStore().ListKeys()) == len(w.list()), nil
	})
	w.stateOfTheCluster()
	if doomed := w.list()[doomed.GetName()]; doomed.round == "" {
		t.Error("a report that waited for its finalizer is lost")
	}
	w.controllersSee()
	if again := w.migrate(nil, ""); again.code != 0 {
		t.Errorf("once more: %+v", again)
	}
}

// list is what the API has now.
func (w *world) list() map[string]written {
	w.t.Helper()
	all, err := w.dynamic.Resource(policyReports).Namespace(team).List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	have := map[string]written{}
	for i := range all.Items {
		have[all.Items[i].GetName()] = written{string(all.Items[i].GetUID()), all.Items[i].GetLabels()["round"]}
	}
	return have
}

func (w *world) compare(want map[string]written, gone map[string]bool) {
	w.t.Helper()
	have := w.list()
	for name, object := range want {
		if have[name] != object {
			w.t.Errorf("%s: want %+v, got %+v", name, object, have[name])
		}
	}
	for name := range have {
		if gone[name] {
			w.t.Errorf("%s was deleted, and is there again", name)
		}
	}
}

// stateOfTheCluster holds that the server has the groups, the CRDs have gone, and nothing of the move is left.
func (w *world) stateOfTheCluster() {
	w.t.Helper()
	for _, name := range []string{"v1alpha2.wgpolicyk8s.io", "v1alpha1.openreports.io"} {
		service, err := w.dynamic.Resource(apiServices).Get(w.t.Context(), name, metav1.GetOptions{})
		w.must(err)
		if service.GetAnnotations()["reports.scanyard.io/managed"] != "true" || service.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "" {
			w.t.Errorf("%s: %v", name, service.Object["metadata"])
		}
	}
	for _, r := range []schema.GroupVersionResource{policyReports, inCluster(policyReports), openReports, inCluster(openReports)} {
		if _, err := w.dynamic.Resource(crds).Get(w.t.Context(), r.Resource+"."+r.Group, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			w.t.Errorf("CRD of %s: %v", r.Resource, err)
		}
	}
	policies, err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	if len(policies.Items) != 0 {
		w.t.Errorf("a policy is left: %s", policies.Items[0].Name)
	}
	noted, err := w.client.CoreV1().ConfigMaps(system).List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range noted.Items {
		if strings.HasPrefix(noted.Items[i].Name, "reports-migration-") {
			w.t.Errorf("a part of the record is left: %s", noted.Items[i].Name)
		}
	}
	kept, err := w.dynamic.Resource(policyReports).Namespace(team).Get(w.t.Context(), "kept-00107", metav1.GetOptions{})
	w.must(err)
	if finalizers := kept.GetFinalizers(); len(finalizers) != 1 || finalizers[0] != "example.com/keep" {
		w.t.Errorf("finalizers %v", finalizers)
	}
	one, err := w.dynamic.Resource(openReports).Namespace(team).Get(w.t.Context(), "open", metav1.GetOptions{})
	w.must(err)
	if one.Object["source"] != "test" {
		w.t.Errorf("the report of openreports.io has lost its source: %v", one.Object)
	}
}

// controllersSee holds that garbage collection, quota and the deletion of namespaces work behind the move.
func (w *world) controllersSee() {
	w.t.Helper()
	w.must(w.client.CoreV1().ConfigMaps(team).Delete(w.t.Context(), "owned", metav1.DeleteOptions{}))
	reports := w.dynamic.Resource(policyReports).Namespace(team)
	w.until("the report whose owner has gone to go", func(ctx context.Context) (bool, error) {
		_, err := reports.Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	counted := corev1.ResourceName("count/policyreports.wgpolicyk8s.io")
	_, err := w.client.CoreV1().ResourceQuotas(team).Create(w.t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "reports"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("100000")}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.until("the quota to count the reports", func(ctx context.Context) (bool, error) {
		quota, err := w.client.CoreV1().ResourceQuotas(team).Get(ctx, "reports", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		used := quota.Status.Used[counted]
		return int(used.Value()) == len(w.list()), nil
	})
	all, err := reports.List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range all.Items {
		if u := &all.Items[i]; len(u.GetFinalizers()) > 0 {
			_, err := reports.Patch(w.t.Context(), u.GetName(), "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			w.must(err)
		}
	}
	w.must(w.client.CoreV1().Namespaces().Delete(w.t.Context(), team, metav1.DeleteOptions{}))
	w.until("the namespace to go", func(ctx context.Context) (bool, error) {
		_, err := w.client.CoreV1().Namespaces().Get(ctx, team, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestRefusals holds the exit codes of what cannot be moved, and the flags that keep things as they are.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	for _, resource := range []schema.GroupVersionResource{policyReports, openReports} {
		_, err := w.dynamic.Resource(resource).Namespace(team).Create(t.Context(), newReport(resource, "both", 1), metav1.CreateOptions{})
		w.must(err)
	}
	got := w.migrate(nil, "", "--keep-crds", "--no-freeze")
	if got.code != 6 || !strings.Contains(got.out, "Both groups have policyreports both in namespace team") || !strings.Contains(got.err, "another object has the name") {
		t.Fatalf("a report in both groups: %+v", got)
	}
	local, err := w.dynamic.Resource(apiServices).Get(t.Context(), "v1alpha1.openreports.io", metav1.GetOptions{})
	w.must(err)
	if _, there, _ := unstructured.NestedMap(local.Object, "spec", "service"); there {
		t.Error("the group was switched though a report of it cannot be moved")
	}
	w.must(w.dynamic.Resource(openReports).Namespace(team).Delete(t.Context(), "both", metav1.DeleteOptions{}))
	got = w.migrate(nil, "", "--keep-crds", "--no-freeze")
	if got.code != 0 || !strings.Contains(got.err, "may be lost") || strings.Contains(got.err, "writes are refused") {
		t.Fatalf("without a freeze: %+v", got)
	}
	crd, err := w.dynamic.Resource(crds).Get(t.Context(), "policyreports.wgpolicyk8s.io", metav1.GetOptions{})
	w.must(err)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		if version.(map[string]any)["served"] != false {
			t.Errorf("a version is served: %v", version.(map[string]any)["name"])
		}
	}
	if have := w.list(); have["both"].uid == "" {
		t.Errorf("the server has %v", have)
	}
	if again := w.migrate(nil, "", "--keep-crds"); again.code != 0 || !strings.Contains(again.out, "nothing, is moved") {
		t.Errorf("once more: %+v", again)
	}
	foreign, err := w.dynamic.Resource(apiServices).Get(t.Context(), "v1alpha2.wgpolicyk8s.io", metav1.GetOptions{})
	w.must(err)
	w.must(unstructured.SetNestedField(foreign.Object, "another-server", "spec", "service", "name"))
	_, err = w.dynamic.Resource(apiServices).Update(t.Context(), foreign, metav1.UpdateOptions{})
	w.must(err)
	if got := w.migrate(nil, "", "--dry-run"); got.code != 5 || !strings.Contains(got.err, system+"/another-server") {
		t.Errorf("another server: %+v", got)
	}
}

// TestMigrationBack holds that reports go back to the CRDs while they are written, watched and interrupted, and that the
// cluster's own controllers go on behind it.
func TestMigrationBack(t *testing.T) {
	w := newWorld(t)
	want := w.fill(reports(t) / 2)
	w.owned("owned")
	_, err := w.dynamic.Resource(openReports).Namespace(team).Create(t.Context(), newReport(openReports, "open", 1), metav1.CreateOptions{})
	w.must(err)
	if got := w.migrate(nil, "", "--keep-crds"); got.code != 0 {
		t.Fatalf("migrate: %+v", got)
	}
	// A report that belongs to a report, and something else that does.
	owner, err := w.dynamic.Resource(policyReports).Namespace(team).Get(t.Context(), "kept-00001", metav1.GetOptions{})
	w.must(err)
	belongs := []metav1.OwnerReference{{APIVersion: "wgpolicyk8s.io/v1alpha2", Kind: "PolicyReport", Name: owner.GetName(), UID: owner.GetUID()}}
	child := newReport(policyReports, "a-child", 1)
	child.SetOwnerReferences(belongs)
	_, err = w.dynamic.Resource(policyReports).Namespace(team).Create(t.Context(), child, metav1.CreateOptions{FieldManager: "somebody"})
	w.must(err)
	_, err = w.client.CoreV1().ConfigMaps(team).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "notes", OwnerReferences: belongs}}, metav1.CreateOptions{})
	w.must(err)

	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, team, nil)
	informer := informers.ForResource(policyReports).Informer()
	informers.Start(t.Context().Done())
	informers.WaitForCacheSync(t.Context().Done())
	writing := w.startWriter()
	writing.goesOn()
	got := w.migrate(nil, "", "--back", "--dry-run")
	if got.code != 0 || !strings.Contains(got.out, "copy to the CRDs and switch") || !strings.Contains(got.out, "configmaps notes in namespace team belongs to PolicyReport kept-00001") {
		t.Fatalf("dry run: %+v", got)
	}
	for _, at := range []struct {
		says   string
		signal os.Signal
	}{
		{"wgpolicyk8s.io: copying", syscall.SIGKILL},
		{"wgpolicyk8s.io: writes are refused", syscall.SIGKILL},
		{"wgpolicyk8s.io: writes are refused", os.Interrupt},
		{"wgpolicyk8s.io: the CRDs answer", syscall.SIGKILL},
		{"wgpolicyk8s.io: comparing", os.Interrupt},
		{"wgpolicyk8s.io: removing", syscall.SIGKILL},
	} {
		got := w.migrate(at.signal, at.says, "--back")
		t.Logf("interrupted at %q by %s: exit code %d", at.says, at.signal, got.code)
		if at.signal == os.Interrupt && got.code != 0 && got.code != 130 || strings.Contains(got.err, "not as they were") {
			t.Fatalf("interrupted at %q: %+v", at.says, got)
		}
		writing.goesOn()
	}
	if got := w.migrate(nil, "", "--back"); got.code != 0 || !strings.Contains(got.out, "The CRDs have the reports of wgpolicyk8s.io and openreports.io") {
		t.Fatalf("the last call: %+v", got)
	}
	writing.goesOn()
	have, gone := writing.end()
	maps.Copy(want, have)
	w.compareContent(want, gone)
	w.until("the informer to have what the list has", func(context.Context) (bool, error) {
		return len(informer.GetStore().ListKeys()) == len(w.list()), nil
	})
	w.stateAfterBack()
	w.controllersSee()
}

// compareContent compares as compare does, but for the uids, which are new.
func (w *world) compareContent(want map[string]written, gone map[string]bool) {
	w.t.Helper()
	have := w.list()
	for name, object := range want {
		if now, there := have[name]; !there || now.round != object.round {
			w.t.Errorf("%s: want %+v, got %+v", name, object, now)
		}
	}
	for name := range have {
		if gone[name] {
			w.t.Errorf("%s was deleted, and is there again", name)
		}
	}
}

// stateAfterBack holds that the CRDs have the groups, that what a report had is kept, and that nothing of the move is left.
func (w *world) stateAfterBack() {
	w.t.Helper()
	for _, r := range []schema.GroupVersionResource{policyReports, openReports} {
		service, err := w.dynamic.Resource(apiServices).Get(w.t.Context(), r.Version+"."+r.Group, metav1.GetOptions{})
		w.must(err)
		if _, there, _ := unstructured.NestedMap(service.Object, "spec", "service"); there {
			w.t.Errorf("%s names a Service", service.GetName())
		}
		crd, err := w.dynamic.Resource(crds).Get(w.t.Context(), r.Resource+"."+r.Group, metav1.GetOptions{})
		w.must(err)
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, version := range versions {
			if version.(map[string]any)["name"] == "v1transit" {
				w.t.Errorf("%s has the version of the move still", crd.GetName())
			}
		}
	}
	get := func(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
		u, err := w.dynamic.Resource(r).Namespace(team).Get(w.t.Context(), name, metav1.GetOptions{})
		w.must(err)
		return u
	}
	if finalizers := get(policyReports, "kept-00107").GetFinalizers(); len(finalizers) != 1 || finalizers[0] != "example.com/keep" {
		w.t.Errorf("finalizers %v", finalizers)
	}
	if get(openReports, "open").Object["source"] != "test" {
		w.t.Error("the report of openreports.io has lost its source")
	}
	if _, err := w.dynamic.Resource(policyReports).Namespace(team).Get(w.t.Context(), "open", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("a report of openreports.io is in wgpolicyk8s.io: %v", err)
	}
	owner, child := get(policyReports, "kept-00001"), get(policyReports, "a-child")
	if owners := child.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != owner.GetUID() {
		w.t.Errorf("the owner's uid is %s, the child has %v", owner.GetUID(), owners)
	}
	if managers := child.GetManagedFields(); len(managers) != 1 || managers[0].Manager != "somebody" {
		w.t.Errorf("who has written the child: %v", managers)
	}
}
