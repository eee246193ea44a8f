// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
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

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// Canonicalize implements rest.RESTCreateStrategy.
func (strategy) Canonicalize(runtime.Object) {}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(metav1.Object).SetGeneration(1)
	if image, ok := obj.(*reportsv1.Image); ok && s.resource.Status {
		image.Status = reportsv1.ImageStatus{}
	}
	switch obj := obj.(type) { // what the server writes
	case *reportsv1.SBOM:
		obj.Spec.SBOMOmitted = false
	case *reportsv1.VulnerabilityReport:
		obj.Spec.ReportOmitted = false
	}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.resource.Keep != nil {
		s.resource.Keep(obj, old)
	}
	if image, ok := obj.(*reportsv1.Image); ok {
		image.Status = old.(*reportsv1.Image).Status
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

// statusStrategy is how the status of images is changed.
type statusStrategy struct{ strategy }

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	image, before := obj.(*reportsv1.Image), old.(*reportsv1.Image)
	status, managed, version := image.Status, image.ManagedFields, image.ResourceVersion
	before.DeepCopyInto(image)
	image.Status, image.ManagedFields, image.ResourceVersion = status, managed, version
	countGeneration(image, before)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.resource.GroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"), fieldpath.MakePathOrDie("metadata", "annotations"),
			fieldpath.MakePathOrDie("metadata", "finalizers"), fieldpath.MakePathOrDie("metadata", "ownerReferences")),
	}
}
