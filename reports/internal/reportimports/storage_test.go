// SPDX-License-Identifier: Apache-2.0

package reportimports_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	policyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/reportimports"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// importer imports PolicyReports into a real storage.
type importer struct {
	t       *testing.T
	store   *mvcc.Store
	reports *sqlstorage.Storage
	imports *reportimports.Storage
}

func newImporter(t *testing.T, config sqldb.Config) *importer {
	t.Helper()
	scheme := runtime.NewScheme()
	internal := schema.GroupVersion{Group: policyv1.SchemeGroupVersion.Group, Version: runtime.APIVersionInternal}
	if err := policyv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypes(internal, &policyv1.PolicyReport{})
	codecs := serializer.NewCodecFactory(scheme)
	codec := apitesting.TestCodec(codecs, policyv1.SchemeGroupVersion)
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1, Freezable: func(key string) bool { return strings.HasPrefix(key, "/reports/") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	newReport := func() runtime.Object { return &policyv1.PolicyReport{} }
	reports, err := sqlstorage.New(sqlstorage.Config{
		Store: store, Kind: sqlstorage.Kind{Number: 1, Resource: "reports", Payload: "results"}, Codec: codec, New: newReport,
		NewList: func() runtime.Object { return &policyv1.PolicyReportList{} }, GroupResource: schema.GroupResource{Resource: "policyreports"},
	})
	if err != nil {
		t.Fatal(err)
	}
	imports := reportimports.New(reportimports.Config{
		Counter: store, Progress: store, Freeze: store.Freeze, FreeBytes: func() (int64, bool) { return 1 << 30, true },
		Decoder: codecs.UniversalDecoder(internal),
		Destination: func(kind schema.GroupVersionKind) (reportimports.Destination, bool) {
			return reportimports.Destination{
				Storage: genericregistry.DryRunnableStorage{Storage: reports, Codec: codec}, New: newReport, Namespaced: true,
				Key: func(namespace, name string) string { return "/reports/" + namespace + "/" + name },
				Validate: func(_ context.Context, obj runtime.Object) field.ErrorList {
					if obj.(*policyv1.PolicyReport).Name == "bad" {
						return field.ErrorList{field.Invalid(field.NewPath("results"), "x", "is bad")}
					}
					return nil
				},
			}, kind.Kind == "PolicyReport"
		},
	})
	return &importer{t: t, store: store, reports: reports, imports: imports}
}

// report is one that a CRD held.
func report(name, uid string, generation int64, message string) *policyv1.PolicyReport {
	second := time.Date(2026, 11, 20, 8, 0, int(generation), 0, time.UTC)
	return &policyv1.PolicyReport{
		TypeMeta: metav1.TypeMeta{APIVersion: "wgpolicyk8s.io/v1alpha2", Kind: "PolicyReport"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: name, UID: types.UID(uid), Generation: generation, ResourceVersion: "77", Finalizers: []string{"example.com/keep"},
			CreationTimestamp: metav1.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC),
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kyverno", Operation: "Update", APIVersion: "wgpolicyk8s.io/v1alpha2", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:results":{}}`), Time: &metav1.Time{Time: second},
			}},
		},
		Results: []policyv1.PolicyReportResult{{Policy: new("one"), Message: message}},
	}
}

func (i *importer) send(options *metav1.CreateOptions, spec reportsv1.ReportImportSpec) reportsv1.ReportImportStatus {
	i.t.Helper()
	obj, err := i.imports.Create(i.t.Context(), &reportsv1.ReportImport{Spec: spec}, nil, options)
	if err != nil {
		i.t.Fatal(err)
	}
	return obj.(*reportsv1.ReportImport).Status
}

func (i *importer) create(options *metav1.CreateOptions, objects ...any) []string {
	i.t.Helper()
	var spec reportsv1.ReportImportSpec
	for _, object := range objects {
		raw, err := json.Marshal(object)
		if err != nil {
			i.t.Fatal(err)
		}
		spec.Objects = append(spec.Objects, runtime.RawExtension{Raw: raw})
	}
	var results []string
	for _, result := range i.send(options, spec).Objects {
		results = append(results, strings.Join([]string{result.Name, string(result.Result), result.Message}, " "))
	}
	return results
}

func (i *importer) stored(name string) *policyv1.PolicyReport {
	i.t.Helper()
	found := &policyv1.PolicyReport{}
	if err := i.reports.Get(i.t.Context(), "/reports/team-a/"+name, storage.GetOptions{IgnoreNotFound: true}, found); err != nil {
		i.t.Fatal(err)
	}
	return found
}

func (i *importer) expect(what string, got []string, want ...string) {
	i.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		i.t.Errorf("%s:\n%s", what, diff)
	}
}

// An import keeps what only servers write.
func TestImportKeeps(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		i := newImporter(t, config)
		sent := report("a", "uid-a", 3, "first")
		i.expect("new", i.create(nil, sent), "a Created ")
		found := i.stored("a")
		if found.ResourceVersion == "" || found.ResourceVersion == sent.ResourceVersion {
			t.Errorf("resourceVersion %q: must be one of ours", found.ResourceVersion)
		}
		found.ResourceVersion, found.TypeMeta = sent.ResourceVersion, sent.TypeMeta
		if diff := cmp.Diff(sent, found, cmp.Transformer("time", func(t metav1.Time) time.Time { return t.UTC() })); diff != "" {
			t.Errorf("what was sent is not what is stored:\n%s", diff)
		}
	})
}

// Only what is newer and has the same uid replaces what is stored.
func TestImportOverwrites(t *testing.T) {
	i := newImporter(t, dbtest.New(t, sqldb.SQLite))
	i.expect("new", i.create(nil, report("a", "uid-a", 3, "first")), "a Created ")
	version := i.stored("a").ResourceVersion
	i.expect("the same again", i.create(nil, report("a", "uid-a", 3, "first")), "a Unchanged ")
	i.expect("older", i.create(nil, report("a", "uid-a", 2, "zeroth")), "a Unchanged ")
	if now := i.stored("a").ResourceVersion; now != version {
		t.Errorf("resourceVersion %s became %s without a change", version, now)
	}
	i.expect("dry run", i.create(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
		report("a", "uid-a", 4, "second"), report("a", "uid-a", 3, "first"), report("b", "uid-b", 1, "")), "a Updated ", "a Unchanged ", "b Created ")
	if i.stored("a").Results[0].Message != "first" || i.stored("b").UID != "" {
		t.Error("a dry run has written something")
	}
	i.expect("newer", i.create(nil, report("a", "uid-a", 4, "second")), "a Updated ")
	later := report("a", "uid-a", 4, "second")
	later.Labels, later.ManagedFields[0].Time = map[string]string{"a": "b"}, &metav1.Time{Time: later.ManagedFields[0].Time.Add(time.Hour)}
	i.expect("newer metadata", i.create(nil, later), "a Updated ")
	if i.stored("a").Labels["a"] != "b" {
		t.Error("the label is missing")
	}
}

// One object that cannot be written does not hold up the others.
func TestImportRefuses(t *testing.T) {
	i := newImporter(t, dbtest.New(t, sqldb.SQLite))
	i.expect("new", i.create(nil, report("a", "uid-a", 1, "first")), "a Created ")
	clusterwide := report("e", "uid-e", 1, "")
	clusterwide.Namespace = ""
	got := i.create(nil, report("a", "uid-b", 9, "other"), report("bad", "uid-c", 1, ""), report("no-uid", "", 1, ""), clusterwide, report("z", "uid-z", 1, ""))
	i.expect("five", got,
		"a Conflict another object has the name, its uid is uid-a",
		`bad Invalid results: Invalid value: "x": is bad`,
		"no-uid Invalid metadata.uid: Required value: is kept by an import",
		`e Invalid metadata.namespace: Invalid value: "": must fit the scope of the kind`,
		"z Created ")
	if i.stored("a").UID != "uid-a" {
		t.Error("an object was replaced by another one")
	}
	if got := i.create(nil, map[string]string{"apiVersion": "v1", "kind": "Secret"}); !strings.Contains(got[0], "Invalid no kind") {
		t.Errorf("a Secret: %s", got)
	}
	_, err := i.imports.Create(t.Context(), &reportsv1.ReportImport{}, nil, nil)
	if !apierrors.IsInvalid(err) {
		t.Errorf("nothing to import: %v", err)
	}
}

// What has gone where it came from is removed, past its finalizers; another one under the name stays.
func TestRemove(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		i := newImporter(t, config)
		i.create(nil, report("a", "uid-a", 1, "first"), report("b", "uid-b", 1, "first"), report("c", "uid-c", 1, "first"))
		gone := func(name, uid string) reportsv1.RemovedReport {
			return reportsv1.RemovedReport{APIVersion: "wgpolicyk8s.io/v1alpha2", Kind: "PolicyReport", Namespace: "team-a", Name: name, UID: uid}
		}
		noKind := gone("a", "uid-a")
		noKind.Kind = "Secret"
		spec := reportsv1.ReportImportSpec{Removed: []reportsv1.RemovedReport{
			gone("a", "uid-a"), gone("b", "uid-of-another"), gone("never", "uid-n"), gone("c", ""), noKind,
		}}
		for _, dry := range []bool{true, false} {
			options := &metav1.CreateOptions{}
			if dry {
				options.DryRun = []string{metav1.DryRunAll}
			}
			status := i.send(options, spec)
			var got []reportsv1.ImportResult
			for _, result := range status.Removed {
				got = append(got, result.Result)
			}
			want := []reportsv1.ImportResult{reportsv1.ImportRemoved, reportsv1.ImportConflict, reportsv1.ImportAbsent, reportsv1.ImportInvalid, reportsv1.ImportInvalid}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("dry run %v:\n%s", dry, diff)
			}
			if there := i.stored("a").UID != ""; there != dry {
				t.Errorf("dry run %v: the report is there: %v", dry, there)
			}
		}
		if i.stored("b").UID != "uid-b" || i.stored("c").UID != "uid-c" {
			t.Error("a report was removed that must stay")
		}
	})
}

// The counter is raised once; numbers of the storage before are too old from then on.
func TestRaise(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		i := newImporter(t, config)
		moving := func(want int64) {
			t.Helper()
			if got, err := i.store.MigrationState(t.Context()); err != nil || got != want {
				t.Errorf("the state of the move is %d, %v, want %d", got, err, want)
			}
		}
		i.create(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, report("a", "uid-a", 1, "first"))
		moving(0)
		i.create(nil, report("a", "uid-a", 1, "first"))
		moving(1)
		spec := reportsv1.ReportImportSpec{MinResourceVersion: new(int64(2_000_000))}
		if status := i.send(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, spec); status.ResourceVersion == "2000000" {
			t.Error("a dry run has raised the counter")
		}
		moving(1)
		for range 2 {
			status := i.send(nil, spec)
			if status.ResourceVersion != "2000000" || i.store.Compacted() != 2_000_000 {
				t.Errorf("the counter is %s, compacted to %d", status.ResourceVersion, i.store.Compacted())
			}
			if status.FreeBytes == nil || *status.FreeBytes != 1<<30 {
				t.Errorf("free bytes: %v", status.FreeBytes)
			}
			moving(0)
		}
		if _, err := i.store.Range(t.Context(), mvcc.Range{Start: "/reports/", End: "/reports0", At: 1_999_999}); !errors.Is(err, mvcc.ErrCompacted) {
			t.Errorf("a number of before: %v, want %v", err, mvcc.ErrCompacted)
		}
		if page, err := i.store.Range(t.Context(), mvcc.Range{Start: "/reports/", End: "/reports0", At: 2_000_000, Limit: 10}); err != nil || len(page.Items) != 1 {
			t.Errorf("the state at the raise: %v", err)
		}
	})
}

// While writes are refused, reports can be neither made nor removed; then they can again.
func TestFreeze(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		i := newImporter(t, config)
		i.create(nil, report("a", "uid-a", 1, "first"))
		write := func() error {
			fresh := report("b", "", 0, "")
			fresh.ResourceVersion = ""
			return i.reports.Create(t.Context(), "/reports/team-a/b", fresh, nil, 0)
		}
		i.send(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, reportsv1.ReportImportSpec{FreezeSeconds: new(int32(20)), MinResourceVersion: new(int64(1))})
		i.expect("after a dry run", i.create(nil, report("a", "uid-a", 2, "second")), "a Updated ")
		i.send(nil, reportsv1.ReportImportSpec{FreezeSeconds: new(int32(20))})
		err := write()
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "reports are being moved, try again in seconds") {
			t.Errorf("a write meanwhile: %v", err)
		}
		if err := i.reports.Delete(t.Context(), "/reports/team-a/a", &policyv1.PolicyReport{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a deletion meanwhile: %v", err)
		}
		i.send(nil, reportsv1.ReportImportSpec{FreezeSeconds: new(int32(0))})
		if err := write(); err != nil {
			t.Errorf("a write afterwards: %v", err)
		}
		for _, seconds := range []int32{-1, 21} {
			if _, err := i.imports.Create(t.Context(), &reportsv1.ReportImport{Spec: reportsv1.ReportImportSpec{FreezeSeconds: &seconds}}, nil, nil); !apierrors.IsInvalid(err) {
				t.Errorf("%d seconds: %v", seconds, err)
			}
		}
	})
}
