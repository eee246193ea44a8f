// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/store/storetest"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/operator/internal/testworld"
	"github.com/scanyard/scanyard/settings"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) { testworld.Main(m, func(c *testcluster.Cluster) { cluster = c }) }

// world is a namespace of the cluster with an operator's settings room. The settings of the
// cluster are shared by all worlds: tests run one after the other.
type world struct {
	*testworld.World

	source *tenancy.Source
	stop   func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: testworld.New(t, cluster, map[string]string{"team": "red"})}
	w.start()
	return w
}

// start starts an operator, as after a restart. It knows nothing but what is stored.
func (w *world) start() {
	w.Helper()
	mgr := w.NewManager(testworld.Manager{Kinds: tenancy.CacheOptions()})
	w.source = tenancy.NewSource(mgr.GetCache(), settings.Defaults{ScannerDeadline: time.Hour, StatusLinks: true}, nil)
	storage, err := store.New(storetest.Config(cluster), store.WithTenants(tenancy.NewBuckets(w.source, mgr.GetAPIReader(), clock.RealClock{})))
	w.Expect(err).NotTo(HaveOccurred())
	r := tenancy.NewReconciler(tenancy.Options{
		Client: mgr.GetClient(), Events: mgr.GetEventRecorder("scanyard"), Clock: clock.RealClock{}, Places: storage,
	})
	w.stop = w.Run(mgr, func(ctx context.Context) error { return r.SetupWithManager(ctx, mgr, nil) })
	w.Expect(mgr.GetCache().WaitForCacheSync(w.Context())).To(BeTrue())
}

// create creates an object, and deletes it at the end of the test: those of the cluster are seen by all worlds.
func (w *world) create(o client.Object) {
	w.Helper()
	w.Expect(w.Client.Create(w.Context(), o)).To(Succeed())
	w.Cleanup(func() {
		if err := client.IgnoreNotFound(w.Client.Delete(context.Background(), o)); err != nil {
			w.Errorf("delete %s: %v", o.GetName(), err)
		}
	})
}

func (w *world) setting(spec settingsv1alpha2.ScanSettingSpec) *settingsv1alpha2.ScanSetting {
	return &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Namespace: w.Namespace}, Spec: spec}
}

func clusterSetting(spec settingsv1alpha2.ClusterScanSettingSpec) *settingsv1alpha2.ClusterScanSetting {
	return &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}, Spec: spec}
}

func (w *world) get() *settingsv1alpha2.ScanSetting {
	w.Helper()
	s := &settingsv1alpha2.ScanSetting{}
	w.Expect(w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: settingsv1alpha2.Name}, s)).To(Succeed())
	return s
}

// set replaces the spec of the namespace's settings.
func (w *world) set(spec settingsv1alpha2.ScanSettingSpec) {
	w.Helper()
	w.Eventually(func() error {
		s := w.get()
		s.Spec = spec
		return w.Client.Update(w.Context(), s)
	}).Should(Succeed())
}

// reason polls the reason of the namespace's condition, for its present generation.
func (w *world) reason() string {
	s := w.get()
	c := meta.FindStatusCondition(s.Status.Conditions, settingsv1alpha2.ConditionReady)
	if c == nil || c.ObservedGeneration != s.Generation {
		return ""
	}
	return c.Reason
}

func (w *world) message() string {
	return meta.FindStatusCondition(w.get().Status.Conditions, settingsv1alpha2.ConditionReady).Message
}

// running is the limit that holds for the namespace; -1 for none.
func (w *world) running() int32 {
	w.Helper()
	e, err := w.source.Effective(w.Context(), w.Namespace)
	w.Expect(err).NotTo(HaveOccurred())
	if e.Namespace.MaxRunning == nil {
		return -1
	}
	return *e.Namespace.MaxRunning
}

func atMost(n int32) settingsv1alpha2.ScanSettingSpec {
	return settingsv1alpha2.ScanSettingSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: &n}}
}

// broken is a spec that the schema takes and that has a mistake.
func broken(n int32) settingsv1alpha2.ScanSettingSpec {
	s := atMost(n)
	s.JobPatches = []settingsv1alpha2.JobPatch{{Patch: "spec:\n  template:\n    spec:\n      serviceAccountName: admin\n"}}
	return s
}

func TestGoodSettingsAreInForce(t *testing.T) {
	w := newWorld(t)
	w.Expect(w.running()).To(Equal(int32(-1)))
	w.create(w.setting(atMost(3)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	w.Eventually(w.running).Should(Equal(int32(3)))
	s := w.get()
	w.Expect(s.Status.InForce).To(Equal(&s.Spec))
	w.Expect(s.Status.InForceGeneration).To(Equal(s.Generation))
	w.Expect(s.Status.ObservedGeneration).To(Equal(s.Generation))

	w.Expect(w.Client.Delete(w.Context(), s)).To(Succeed())
	w.Eventually(w.running).Should(Equal(int32(-1)))
}

// TestLastGoodSettingsStayInForce also over a restart of the operator.
func TestLastGoodSettingsStayInForce(t *testing.T) {
	w := newWorld(t)
	w.create(w.setting(atMost(3)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))

	w.set(broken(9))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonInvalid))
	w.Expect(w.message()).To(And(ContainSubstring("spec.jobPatches[0].patch"), ContainSubstring("line 4"), ContainSubstring("status.inForce")))
	w.Expect(w.running()).To(Equal(int32(3)))
	w.Eventually(w.events).Should(ContainSubstring("serviceAccountName"))

	w.stop()
	w.start()
	w.Expect(w.running()).To(Equal(int32(3)))

	w.set(atMost(4))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	w.Eventually(w.running).Should(Equal(int32(4)))
}

func (w *world) events() string {
	w.Helper()
	var list eventsv1.EventList
	w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
	var notes []string
	for i := range list.Items {
		notes = append(notes, list.Items[i].Note)
	}
	return strings.Join(notes, "\n")
}

// TestBadFromTheStartIsNotInForce: there is no good one before it, so the cluster's hold.
func TestBadFromTheStartIsNotInForce(t *testing.T) {
	w := newWorld(t)
	w.create(clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(7))}}))
	w.create(w.setting(broken(1)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonInvalid))
	w.Expect(w.message()).To(ContainSubstring("none are"))
	w.Eventually(w.running).Should(Equal(int32(7)))
}

// TestTighterClusterPutsNamespacesOutOfBounds: what was good before is cut at once, and the team
// is told.
func TestTighterClusterPutsNamespacesOutOfBounds(t *testing.T) {
	w := newWorld(t)
	w.create(w.setting(atMost(8)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	c := clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{
		Limits:  &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(5))},
		Weights: []settingsv1alpha2.Weight{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}, Weight: 4}},
	})
	w.create(c)
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonOutOfBounds))
	w.Expect(w.message()).To(ContainSubstring("set it to 5 or less"))
	w.Eventually(w.running).Should(Equal(int32(5)))
	e, err := w.source.Effective(w.Context(), w.Namespace)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(e.Weight).To(Equal(int32(4)))

	w.Expect(w.Client.Delete(w.Context(), c)).To(Succeed())
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	w.Eventually(w.running).Should(Equal(int32(8)))
}

func TestPatchForNothingIsHeldBackUntilItMatches(t *testing.T) {
	w := newWorld(t)
	w.create(w.setting(atMost(2)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	s := atMost(3)
	s.JobPatches = []settingsv1alpha2.JobPatch{{
		Target: &settingsv1alpha2.PatchTarget{ScanTypes: []string{"nmap"}}, Patch: "metadata: {labels: {patched: 'yes'}}",
	}}
	w.set(s)
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonPatchMatchesNothing))
	w.Eventually(w.running).Should(Equal(int32(2)))

	w.create(&executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap", Namespace: w.Namespace}, Spec: *testobjects.ScanTypeSpec()})
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	w.Eventually(w.running).Should(Equal(int32(3)))
}

func TestBadClusterSettingsKeepTheLastGood(t *testing.T) {
	w := newWorld(t)
	c := clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(6))}})
	w.create(c)
	ready := func() string {
		w.Expect(w.Client.Get(w.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
		if m := meta.FindStatusCondition(c.Status.Conditions, settingsv1alpha2.ConditionReady); m != nil && m.ObservedGeneration == c.Generation {
			return m.Reason
		}
		return ""
	}
	w.Eventually(ready).Should(Equal(settingsv1alpha2.ReasonAccepted))
	c.Spec = settingsv1alpha2.ClusterScanSettingSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "metadata: {name: mine}"}}}
	w.Expect(w.Client.Update(w.Context(), c)).To(Succeed())
	w.Eventually(ready).Should(Equal(settingsv1alpha2.ReasonInvalid))
	w.Eventually(w.running).Should(Equal(int32(6)))
	w.stop()
	w.start()
	w.Expect(w.running()).To(Equal(int32(6)))
}

// TestUnusableStorageIsReported: with what is missing, until it is there.
func TestUnusableStorageIsReported(t *testing.T) {
	w := newWorld(t)
	w.create(clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}}))
	w.create(w.setting(settingsv1alpha2.ScanSettingSpec{Storage: &settingsv1alpha2.Storage{Bucket: cluster.Storage.Bucket, Prefix: "team", CredentialsSecret: "s3"}}))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonStorageUnavailable))
	w.Expect(w.message()).To(ContainSubstring("create it with the keys accessKey and secretKey"))
	w.Expect(w.get().Status.InForce).NotTo(BeNil())

	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "s3"},
		StringData: map[string]string{"accessKey": cluster.Storage.AccessKey, "secretKey": cluster.Storage.SecretKey},
	})
	w.set(settingsv1alpha2.ScanSettingSpec{Storage: &settingsv1alpha2.Storage{Bucket: cluster.Storage.Bucket, Prefix: "team-a", CredentialsSecret: "s3"}})
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
}

// TestSchemaRefuses what can be told without the cluster's settings, with the remedy.
func TestSchemaRefuses(t *testing.T) {
	w := newWorld(t)
	cases := map[string]struct {
		object client.Object
		want   string
	}{
		"Name":         {&settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: w.Namespace}}, "set metadata.name to default"},
		"ClusterName":  {&settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, "set metadata.name to default"},
		"Negative":     {w.setting(atMost(-1)), "greater than or equal to 0"},
		"TTL":          {w.setting(settingsv1alpha2.ScanSettingSpec{TTL: &settingsv1alpha2.TTL{DefaultSeconds: new(int32(9)), MaxSeconds: new(int32(8))}}), "lower it"},
		"PerNamespace": {clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunning: new(int32(1)), MaxRunningPerNamespace: new(int32(2))}}), "lower it"},
		"Weight":       {clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{Weights: []settingsv1alpha2.Weight{{Weight: 1}}}), "either a namespace or a namespaceSelector"},
		"Prefix":       {w.setting(settingsv1alpha2.ScanSettingSpec{Storage: &settingsv1alpha2.Storage{Prefix: "/a"}}), "spec.storage.prefix"},
		"Phase":        {w.setting(settingsv1alpha2.ScanSettingSpec{JobPatches: []settingsv1alpha2.JobPatch{{Target: &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{"scanner"}}, Patch: "x"}}}), `"Scanner", "Parser", "Hook"`},
		"SameType":     {w.setting(settingsv1alpha2.ScanSettingSpec{Limits: &settingsv1alpha2.Limits{ScanTypes: []settingsv1alpha2.ScanTypeLimit{{Name: "a"}, {Name: "a"}}}}), "Duplicate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := w.Client.Create(t.Context(), tc.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestUnknownFieldsAreRefused as kubectl asks for it, with the name of the field.
func TestUnknownFieldsAreRefused(t *testing.T) {
	w := newWorld(t)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"limits": map[string]any{"maxRuning": int64(1)}}}}
	u.SetGroupVersionKind(settingsv1alpha2.SchemeGroupVersion.WithKind("ScanSetting"))
	u.SetName(settingsv1alpha2.Name)
	u.SetNamespace(w.Namespace)
	err := w.Client.Create(t.Context(), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	w.Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.limits.maxRuning"`)))
}

// TestSourceKeepsWhatItComputed: a result is returned again without a look at the
// objects, until one of them changes.
func TestSourceKeepsWhatItComputed(t *testing.T) {
	w := newWorld(t)
	w.create(w.setting(atMost(3)))
	w.Eventually(w.reason).Should(Equal(settingsv1alpha2.ReasonAccepted))
	w.Eventually(w.running).Should(Equal(int32(3)))
	var first, second *settings.Effective
	w.Eventually(func() bool {
		var errs [2]error
		first, errs[0] = w.source.Effective(w.Context(), w.Namespace)
		second, errs[1] = w.source.Effective(w.Context(), w.Namespace)
		w.Expect(errors.Join(errs[:]...)).To(Succeed())
		return first == second
	}).Should(BeTrue())
	w.set(atMost(4))
	w.Eventually(w.running).Should(Equal(int32(4)))
	w.Expect(*first.Namespace.MaxRunning).To(Equal(int32(3)))
}
