// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"reflect"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/kinds"
)

// oneKind names objects by the kind of one group, where a type is a kind of several.
type oneKind struct {
	*runtime.Scheme
	kind schema.GroupVersionKind
}

// ObjectKinds implements runtime.ObjectTyper.
func (t oneKind) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{t.kind}, false, nil
}

// strategy is how objects of a resource are created, changed and deleted.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource *kinds.Resource
}

var (
	_ rest.RESTCreateStrategy = strategy{}
	_ rest.RESTUpdateStrategy = strategy{}
	_ rest.RESTDeleteStrategy = strategy{}
)

func newStrategy(scheme *runtime.Scheme, resource *kinds.Resource) strategy {
	kind := resource.GroupVersion.WithKind(resource.Kind)
	return strategy{ObjectTyper: oneKind{Scheme: scheme, kind: kind}, NameGenerator: names.SimpleNameGenerator, resource: resource}
}

// NamespaceScoped implements rest.Scoper.
func (s strategy) NamespaceScoped() bool { return s.resource.Namespaced }

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy: a PUT to a name that is not there is 404.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy. Kinds that are CRDs elsewhere ask for a resourceVersion, as CRDs do.
func (s strategy) AllowUnconditionalUpdate(context.Context) bool {
	return s.resource.GroupVersion == kinds.Scanyard
}

// Canonicalize implements rest.RESTCreateStrategy.
func (strategy) Canonicalize(runtime.Object) {}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(metav1.Object).SetGeneration(1)
	switch obj := obj.(type) { // what the server, or who writes the status, writes
	case *reportsv1.Image:
		obj.Status = reportsv1.ImageStatus{}
	case *reportsv1.Repository:
		obj.Status = reportsv1.RepositoryStatus{}
	case *reportsv1.VulnerabilityDatabase:
		obj.Status = reportsv1.VulnerabilityDatabaseStatus{}
	case *reportsv1.SBOM:
		obj.Spec.SBOMOmitted = false
	case *reportsv1.VulnerabilityReport:
		obj.Spec.ReportOmitted, obj.Spec.CurrentAsOf = false, nil
	}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.resource.Keep != nil {
		s.resource.Keep(obj, old)
	}
	switch obj := obj.(type) {
	case *reportsv1.Image:
		obj.Status = old.(*reportsv1.Image).Status
	case *reportsv1.Repository:
		obj.Status = old.(*reportsv1.Repository).Status
	case *reportsv1.VulnerabilityDatabase:
		obj.Status = old.(*reportsv1.VulnerabilityDatabase).Status
	}
	countGeneration(obj, old)
}

// countGeneration raises the generation where anything besides the metadata has changed.
func countGeneration(obj, old runtime.Object) {
	generation := old.(metav1.Object).GetGeneration()
	if !apiequality.Semantic.DeepEqual(bare(obj), bare(old)) {
		generation++
	}
	obj.(metav1.Object).SetGeneration(generation)
}

// bare is a shallow copy of an object without its metadata.
func bare(obj runtime.Object) any {
	value := reflect.ValueOf(obj).Elem()
	copied := reflect.New(value.Type()).Elem()
	copied.Set(value)
	copied.FieldByName("TypeMeta").SetZero()
	copied.FieldByName("ObjectMeta").SetZero()
	return copied.Addr().Interface()
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessor(obj.(metav1.Object), s.resource.Namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, s.resource.Validate(obj)...)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(obj.(metav1.Object), old.(metav1.Object), field.NewPath("metadata"))
	errs = append(errs, s.resource.Validate(obj)...)
	return append(errs, s.resource.ValidateUpdate(obj, old)...)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields implements rest.ResetFieldsStrategy: who writes a resource with a status does not own the status.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.resource.Status {
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.resource.GroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}

// statusStrategy is how the status of an object is changed.
type statusStrategy struct {
	strategy

	clock clock.PassiveClock
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	changed := obj.(metav1.Object)
	managed, version := changed.GetManagedFields(), changed.GetResourceVersion()
	switch obj := obj.(type) {
	case *reportsv1.Image:
		before, status := old.(*reportsv1.Image), obj.Status
		before.DeepCopyInto(obj)
		obj.Status = status
		lease(obj.Status.Work, before.Status.Work, s.clock.Now())
	case *reportsv1.Repository:
		before, status := old.(*reportsv1.Repository), obj.Status
		before.DeepCopyInto(obj)
		obj.Status = status
		lease(obj.Status.Work, before.Status.Work, s.clock.Now())
	case *reportsv1.VulnerabilityDatabase:
		before, status := old.(*reportsv1.VulnerabilityDatabase), obj.Status
		before.DeepCopyInto(obj)
		obj.Status = status
	}
	changed.SetManagedFields(managed)
	changed.SetResourceVersion(version)
	countGeneration(obj, old)
}

// leaseTime is how long a claim is good without being renewed.
const leaseTime = 3 * time.Minute

// lease writes the times of a claim by the server's clock: those of workers need not be right. A claim that is new begins now;
// one whose lease somebody changes is renewed.
func lease(work, before *reportsv1.Work, now time.Time) {
	if work == nil {
		return
	}
	if work.Claim == "" {
		work.LeaseExpiresAt = nil
		return
	}
	begun := metav1.NewTime(now)
	ends := metav1.NewTime(now.Add(leaseTime))
	switch {
	case before == nil || before.Claim != work.Claim:
		work.StartedAt, work.LeaseExpiresAt = &begun, &ends
	case !work.LeaseExpiresAt.Equal(before.LeaseExpiresAt):
		work.StartedAt, work.LeaseExpiresAt = before.StartedAt, &ends
	default:
		work.StartedAt = before.StartedAt
	}
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.resource.GroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"), fieldpath.MakePathOrDie("metadata", "annotations"),
			fieldpath.MakePathOrDie("metadata", "finalizers"), fieldpath.MakePathOrDie("metadata", "ownerReferences")),
	}
}
