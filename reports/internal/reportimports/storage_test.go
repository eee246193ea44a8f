// SPDX-License-Identifier: Apache-2.0

package reportimports_test

import (
	"context"
	"encoding/json"
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
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1})
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
	return &importer{t: t, reports: reports, imports: imports}
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
		Results: []policyv1.PolicyReportResult{{Policy: "one", Message: message}},
	}
}

func (i *importer) create(options *metav1.CreateOptions, objects ...any) []string {
	i.t.Helper()
	wanted := &reportsv1.ReportImport{}
	for _, object := range objects {
		raw, err := json.Marshal(object)
		if err != nil {
			i.t.Fatal(err)
		}
		wanted.Spec.Objects = append(wanted.Spec.Objects, runtime.RawExtension{Raw: raw})
	}
	obj, err := i.imports.Create(i.t.Context(), wanted, nil, options)
	if err != nil {
		i.t.Fatal(err)
	}
	var results []string
	for _, result := range obj.(*reportsv1.ReportImport).Status.Objects {
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
