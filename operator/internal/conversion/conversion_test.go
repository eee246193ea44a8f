// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/conversion"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var (
	cluster *testcluster.Cluster
	full    = flag.Bool("full", false, "run at the size of the contract: 1,000 and 10,000 objects")
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const patience = 60 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-end:
			t.Fatal("it did not come true that", what)
		case <-tick.C:
		}
	}
}

var (
	oldKind = schema.GroupVersionKind{Group: settingsv1alpha2.SchemeGroupVersion.Group, Version: "v1alpha1", Kind: "ScanSetting"}
	newKind = settingsv1alpha2.SchemeGroupVersion.WithKind("ScanSetting")
)

// as returns an object to read a version into.
func as(kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(settingsv1alpha2.Name)
	return o
}

func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conversion-"}}
	must(t, cluster.Client.Create(t.Context(), ns))
	return ns.Name
}

// forwarding is a setting with something that v1alpha1 cannot say.
func forwarding(namespace string) *settingsv1alpha2.ScanSetting {
	return &settingsv1alpha2.ScanSetting{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: settingsv1alpha2.Name},
		Spec: settingsv1alpha2.ScanSettingSpec{
			Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(3))},
			ResultForwarding: &settingsv1alpha2.ResultForwarding{Sink: settingsv1alpha2.Sink{
				Provider: settingsv1alpha2.ProviderGRPC, GRPC: &settingsv1alpha2.GRPCSink{Endpoint: "https://compliance.example.com:443"},
			}},
		},
	}
}

// operator answers the API server as an operator does.
type operator struct {
	address, url string
	secret       string // the namespace of its certificate
	cert         atomic.Pointer[certificate.Certificate]
	server       *http.Server
	ended        chan error
}

func (o *operator) up(t *testing.T) {
	t.Helper()
	if o.address == "" {
		o.address = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", o.address)
	must(t, err)
	o.address = l.Addr().String()
	o.url = "https://" + o.address + conversion.Path
	handler, err := conversion.NewHandler()
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle(conversion.Path, handler)
	o.ended = make(chan error, 1)
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &o.cert.Load().TLS, nil },
	}}
	go func(s *http.Server) { o.ended <- s.ServeTLS(l, "", "") }(o.server)
}

func (o *operator) kill(t *testing.T) {
	t.Helper()
	if o.server == nil {
		return
	}
	must(t, o.server.Close())
	if err := <-o.ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	o.server = nil
}

// keepers of both CRDs.
func (o *operator) keepers(t *testing.T) (all []*conversion.Keeper) {
	t.Helper()
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	for _, name := range conversion.CRDs() {
		all = append(all, &conversion.Keeper{Client: live, Name: name, Server: apiextensionsv1.WebhookClientConfig{URL: &o.url, CABundle: []byte(o.cert.Load().CA)}})
	}
	return all
}

// noConversion sets strategy None, as the documentation says for an operator that is gone.
func noConversion(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, name := range conversion.CRDs() {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, cluster.Client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"conversion": {"strategy": "None", "webhook": null}}}`))))
	}
}

// start installs the conversion and returns when the API server asks for it.
func start(t *testing.T) *operator {
	t.Helper()
	o := &operator{secret: namespace(t)}
	o.cert.Store(ensure(t, o.secret))
	o.up(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(conversion.CRDs()))
	for _, k := range o.keepers(t) {
		go func() { ended <- k.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range conversion.CRDs() {
			must(t, <-ended)
		}
		noConversion(context.WithoutCancel(ctx), t)
		o.kill(t)
	})
	probe := forwarding(namespace(t))
	must(t, cluster.Client.Create(ctx, probe))
	eventually(t, "the API server asks", func() bool {
		old := as(oldKind, probe.Namespace)
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(old), old)
		return err == nil && old.GetAnnotations()[settingsv1alpha2.AnnotationKept] != ""
	})
	must(t, cluster.Client.Delete(ctx, probe))
	return o
}

// ensure returns the certificate in a namespace; further names make it anew.
func ensure(t *testing.T, namespace string, also ...string) *certificate.Certificate {
	t.Helper()
	c, err := certificate.Ensure(t.Context(), cluster.Client, certificate.Request{
		Secret: client.ObjectKey{Namespace: namespace, Name: "tls"}, Host: "127.0.0.1", Also: also, Purpose: "test",
	}, time.Now())
	must(t, err)
	return c
}

// TestConversionOldManifests applies manifests of v1alpha1 from the old documentation, client-side and server-side, before and after another
// client has set a field that v1alpha1 does not have.
func TestConversionOldManifests(t *testing.T) {
	start(t)
	files, err := filepath.Glob("testdata/old/*.yaml")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no manifests")
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		for name, apply := range map[string]func(*unstructured.Unstructured) error{
			"ClientSide": func(o *unstructured.Unstructured) error {
				patch, err := yaml.YAMLToJSON(raw)
				must(t, err)
				err = cluster.Client.Create(t.Context(), o.DeepCopy(), client.FieldOwner("kubectl-client-side-apply"))
				if err == nil {
					return nil
				}
				return cluster.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("kubectl-client-side-apply"))
			},
			"ServerSide": func(o *unstructured.Unstructured) error {
				return cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("team"))
			},
		} {
			t.Run(filepath.Base(file)+name, func(t *testing.T) {
				manifest := &unstructured.Unstructured{}
				must(t, yaml.UnmarshalStrict(raw, &manifest.Object))
				manifest.SetNamespace(namespace(t))
				must(t, apply(manifest.DeepCopy()))
				added := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"resultForwarding": {"provider": "grpc", "grpc": {"endpoint": "h:1"}}}}`))
				must(t, cluster.Client.Patch(t.Context(), as(newKind, manifest.GetNamespace()), added, client.FieldOwner("admin")))
				must(t, apply(manifest.DeepCopy()))

				now := as(newKind, manifest.GetNamespace())
				must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now))
				if endpoint, _, _ := unstructured.NestedString(now.Object, "spec", "resultForwarding", "grpc", "endpoint"); endpoint != "h:1" {
					t.Errorf("resultForwarding is lost: %v", now.Object["spec"])
				}
				if now.GetAnnotations()[settingsv1alpha2.AnnotationKept] != "" {
					t.Error("the annotation is stored")
				}
				old := as(oldKind, manifest.GetNamespace())
				must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old))
				want, _, _ := unstructured.NestedMap(manifest.Object, "spec")
				got, _, _ := unstructured.NestedMap(old.Object, "spec")
				if fmt.Sprint(want) != fmt.Sprint(got) {
					t.Errorf("the spec is %v, want %v", got, want)
				}
				var owners []string
				for _, m := range now.GetManagedFields() {
					owners = append(owners, m.Manager+" "+m.APIVersion)
				}
				slices.Sort(owners)
				team := map[string]string{"ClientSide": "kubectl-client-side-apply", "ServerSide": "team"}[name]
				if want := []string{"admin " + newKind.GroupVersion().String(), team + " " + oldKind.GroupVersion().String()}; !slices.Equal(slices.Sorted(slices.Values(want)), owners) {
					t.Errorf("fields are owned by %v, want %v", owners, want)
				}
			})
		}
	}
}

// TestConversionOperatorDown: without the operator the stored version is there, and objects can be deleted; what asks for
// the older one is told why it is not. Objects are many, so that lists are.
func TestConversionOperatorDown(t *testing.T) {
	o := start(t)
	objects := 200
	if *full {
		objects = 1000
	}
	var spaces []string
	for range objects {
		ns := namespace(t)
		spaces = append(spaces, ns)
		must(t, cluster.Client.Create(t.Context(), forwarding(ns)))
	}
	list := func(kind schema.GroupVersionKind) (int, error) {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := cluster.Client.List(t.Context(), l)
		return len(l.Items), err
	}
	if n, err := list(oldKind); err != nil || n < objects {
		t.Fatal(n, err)
	}
	o.kill(t)
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"limits": {"maxRunning": 7}}}`))
	// A list may come from the API server's cache; a write never does.
	if err := cluster.Client.Patch(t.Context(), as(oldKind, spaces[0]), edit); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Errorf("the older version without the operator: %v", err)
	}
	n, err := list(newKind)
	if err != nil || n < objects {
		t.Errorf("the stored version without the operator: %d, %v", n, err)
	}
	must(t, cluster.Client.Patch(t.Context(), as(newKind, spaces[0]), edit))
	must(t, cluster.Client.Delete(t.Context(), as(newKind, spaces[1])))
	o.up(t)
	eventually(t, "the older version is back", func() bool {
		m, err := list(oldKind)
		return err == nil && m == n-1
	})
}

// TestConversionCertificateRotation: lists go on while the certificate changes and a replica of before still keeps its own
// authority.
func TestConversionCertificateRotation(t *testing.T) {
	o := start(t)
	space := namespace(t)
	must(t, cluster.Client.Create(t.Context(), forwarding(space)))
	read := func() error {
		old := as(oldKind, space)
		return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old)
	}
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for reads := 0; ; reads++ {
			select {
			case <-stop:
				if reads == 0 {
					failed <- errors.New("nothing was read")
				}
				close(failed)
				return
			default:
			}
			if err := read(); err != nil {
				failed <- err
				close(failed)
				return
			}
		}
	}()
	next := ensure(t, o.secret, "another.example.com")
	if next.CA == o.cert.Load().CA || !strings.Contains(next.CA, o.cert.Load().CA) {
		t.Error("the authority of before is not trusted any more, or nothing was rotated")
	}
	replicaOfBefore := o.keepers(t)
	for _, k := range o.keepers(t) {
		k.Server.CABundle = []byte(next.CA)
		must(t, k.Write(t.Context()))
	}
	for _, k := range replicaOfBefore {
		must(t, k.Write(t.Context()))
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: k.Name}, crd))
		if string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) != next.CA {
			t.Error("a replica of before has undone what a newer one wrote")
		}
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	o.kill(t)
	o.cert.Store(next)
	o.up(t)
	eventually(t, "the API server trusts the new certificate", func() bool { return read() == nil })
}

// TestUninstallLeavesUsableAPI: with the operator gone, the one patch of the documentation lets both versions be used. The CRDs of the release
// before are refused, since they do not have the version that is stored.
func TestUninstallLeavesUsableAPI(t *testing.T) {
	o := &operator{}
	o.cert.Store(ensure(t, namespace(t)))
	o.up(t)
	for _, k := range o.keepers(t) {
		must(t, k.Write(t.Context()))
	}
	t.Cleanup(func() { noConversion(context.WithoutCancel(t.Context()), t) })
	space := namespace(t)
	must(t, cluster.Client.Create(t.Context(), forwarding(space)))
	o.kill(t)
	eventually(t, "the older version is away", func() bool {
		return cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: space, Name: settingsv1alpha2.Name}, as(oldKind, space)) != nil
	})
	noConversion(t.Context(), t)
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"limits": {"maxRunning": 9}}}`))
	eventually(t, "the older version can be written", func() bool { return cluster.Client.Patch(t.Context(), as(oldKind, space), edit) == nil })
	now := &settingsv1alpha2.ScanSetting{}
	must(t, cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: space, Name: settingsv1alpha2.Name}, now))
	if *now.Spec.Limits.MaxRunning != 9 || now.Spec.ResultForwarding != nil { // as the documentation of a downgrade says
		t.Errorf("%+v", now.Spec)
	}
	must(t, cluster.Client.Delete(t.Context(), now))
	for _, before := range olderCRDs(t) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), crd))
		crd.Spec = before.Spec
		if err := cluster.Client.Update(t.Context(), crd); err == nil || !strings.Contains(err.Error(), "status.storedVersions") {
			t.Errorf("%s of the release before: %v", crd.Name, err)
		}
	}
}

// store makes one of the versions the stored one.
func store(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(t, cluster.Client.Get(ctx, client.ObjectKey{Name: conversion.CRDs()[0]}, crd))
	before := crd.DeepCopy()
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
	}
	must(t, cluster.Client.Patch(ctx, crd, client.MergeFrom(before)))
}

// olderObjects makes settings that are stored in the older version, and gives the resourceVersion of each by namespace. The newer
// version is the stored one again when it returns.
func olderObjects(t *testing.T, objects int) map[string]string {
	t.Helper()
	store(t.Context(), t, "v1alpha1")
	t.Cleanup(func() { store(context.WithoutCancel(t.Context()), t, "v1alpha2") })
	probe := namespace(t)
	eventually(t, "the older version is stored", func() bool { // which shows as a write of nothing that writes
		must(t, client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), as(newKind, probe))))
		return slices.Contains(storedVersions(t), "v1alpha1")
	})
	versions := map[string]string{}
	for range objects {
		o := as(newKind, namespace(t))
		must(t, cluster.Client.Create(t.Context(), o))
		versions[o.GetNamespace()] = o.GetResourceVersion()
	}
	store(t.Context(), t, "v1alpha2")
	return versions
}

func storedVersions(t *testing.T) []string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: conversion.CRDs()[0]}, crd))
	return crd.Status.StoredVersions
}

// allAnew asks that each object was written.
func allAnew(t *testing.T, versions map[string]string) {
	t.Helper()
	if got := storedVersions(t); !slices.Equal(got, []string{"v1alpha2"}) {
		t.Errorf("stored are %v", got)
	}
	for space, before := range versions {
		o := as(newKind, space)
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if o.GetResourceVersion() == before {
			t.Errorf("the object of %s is stored in the older version still", space)
		}
	}
}

// TestMigrationByTheCluster: the cluster migrates the objects, and the operator deletes its StorageVersionMigration.
func TestMigrationByTheCluster(t *testing.T) {
	versions := olderObjects(t, 5)
	recorder := events.NewFakeRecorder(10)
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	idle := interceptor.NewClient(live, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}
		return fmt.Errorf("the operator writes %s %s by itself", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
	}})
	// A StorageVersionMigration of an earlier change of versions is replaced.
	stale := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "scanyard-scansettings"},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: oldKind.Group, Resource: "nothing"}},
	}
	must(t, cluster.Client.Create(t.Context(), stale))
	meta.SetStatusCondition(&stale.Status.Conditions, metav1.Condition{
		Type: string(storagemigrationv1.MigrationFailed), Status: metav1.ConditionTrue, Reason: "StorageVersionMigrationFailed", Message: "by the test",
	})
	must(t, cluster.Client.Status().Update(t.Context(), stale))
	cluster.RunControllers(t)
	must(t, conversion.NewMigration(idle, recorder, prometheus.NewRegistry()).Start(t.Context()))
	allAnew(t, versions)
	if len(recorder.Events) == 0 {
		t.Error("no Event tells that the settings were stored anew")
	}
	list := &storagemigrationv1.StorageVersionMigrationList{}
	if must(t, cluster.Client.List(t.Context(), list)); len(list.Items) > 0 {
		t.Errorf("left are %+v", list.Items)
	}
}

// TestMigrationWithoutTheCluster: the operator migrates the objects if the cluster does not within the patience.
func TestMigrationWithoutTheCluster(t *testing.T) {
	versions := olderObjects(t, 5)
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	// The StorageVersionMigration does not reach the API server.
	deaf := interceptor.NewClient(live, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*storagemigrationv1.StorageVersionMigration); ok {
				return nil
			}
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*storagemigrationv1.StorageVersionMigration); ok {
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	m := conversion.NewMigration(deaf, events.NewFakeRecorder(10), prometheus.NewRegistry())
	m.PerSecond, m.ClusterPatience = 1000, time.Millisecond
	must(t, m.Start(t.Context()))
	allAnew(t, versions)
}

// TestMigrationEventAfterConflict: the Event is recorded although somebody else writes the stored versions first, so that the operator's write
// fails and its next attempt finds nothing left to do.
func TestMigrationEventAfterConflict(t *testing.T) {
	versions := olderObjects(t, 1)
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	conflicts := 0
	raced := interceptor.NewClient(live, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok && conflicts == 0 {
			conflicts++
			must(t, c.SubResource(sub).Patch(ctx, o.DeepCopyObject().(client.Object), p, opts...))
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
	recorder := events.NewFakeRecorder(10)
	m := conversion.NewMigration(raced, recorder, prometheus.NewRegistry())
	m.PerSecond, m.ClusterPatience, m.RetryAfter = 1000, 0, time.Millisecond
	must(t, m.Start(t.Context()))
	allAnew(t, versions)
	if conflicts != 1 || len(recorder.Events) != 1 {
		t.Errorf("%d conflicts and %d Events, want one of each", conflicts, len(recorder.Events))
	}
}

// TestMigrationInterrupted: a migration that is killed twice ends, writes each object once, and removes the older version from
// status.storedVersions only at its end.
func TestMigrationInterrupted(t *testing.T) {
	const some = 60
	objects := int32(some)
	if *full {
		objects = 10_000
	}
	versions := olderObjects(t, int(objects))
	var writes atomic.Int32
	for _, lives := range []int32{objects / 3, objects / 3, 1 << 30} {
		if got := storedVersions(t); !slices.Contains(got, "v1alpha1") {
			t.Fatal("the older version is gone before the migration has ended:", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
		must(t, err)
		end := writes.Load() + lives
		killed := interceptor.NewClient(live, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := o.(*metav1.PartialObjectMetadata); ok && writes.Add(1) >= end {
				cancel()
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
		m := conversion.NewMigration(killed, events.NewFakeRecorder(10), prometheus.NewRegistry())
		m.PerSecond, m.ClusterPatience = 10_000, 0
		must(t, m.Start(ctx))
		cancel()
	}
	allAnew(t, versions)
}
