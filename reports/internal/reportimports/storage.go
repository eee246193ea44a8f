// SPDX-License-Identifier: Apache-2.0

package reportimports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// maxObjects is how many objects one ReportImport may hold, and how many it may remove.
const maxObjects = 500

// maxFreezeSeconds is how long one ReportImport may have writes refused.
const maxFreezeSeconds = 20

// Destination is where objects of one kind are written to.
type Destination struct {
	Storage genericregistry.DryRunnableStorage
	// New makes an empty object of the internal version.
	New func() runtime.Object
	// Key returns the key of an object in Storage.
	Key        func(namespace, name string) string
	Namespaced bool
	// Validate returns every mistake of an object of the internal version.
	Validate func(ctx context.Context, obj runtime.Object) field.ErrorList
}

// Counter is the counter that all resourceVersions come from.
type Counter interface {
	// Current asks the database for the counter.
	Current(ctx context.Context) (int64, error)
	// Compacted is the number up to which all are too old.
	Compacted() int64
	// Advance raises the counter to a number, makes all before it too old, and returns the counter.
	Advance(ctx context.Context, to int64) (int64, error)
}

// Config is what a Storage is made of.
type Config struct {
	// Decoder reads objects of all versions that can be imported into the internal one.
	Decoder runtime.Decoder
	// Destination returns where objects of a kind belong, and false for kinds that are not imported.
	Destination func(kind schema.GroupVersionKind) (Destination, bool)
	Counter     Counter
	// FreeBytes tells how much space the database has left; nil, or false, where that is not known.
	FreeBytes func() (int64, bool)
	// Freeze refuses writes of reports for a time; 0 lets them through again. It returns when the last write before is done.
	Freeze func(ctx context.Context, d time.Duration) error
	// Progress notes how far a move is. Nil: nobody wants to know.
	Progress Progress
}

// Progress is told how far a move is, by whichever replica: it has to be noted where all see it.
type Progress interface {
	// Moving notes whether reports have been written that nobody is sent to yet: the switch follows.
	Moving(ctx context.Context, moving bool) error
}

// Storage is the create-only kind of imports.
type Storage struct {
	rest.TableConvertor

	config Config
}

var (
	_ rest.Storage              = (*Storage)(nil)
	_ rest.Creater              = (*Storage)(nil)
	_ rest.Scoper               = (*Storage)(nil)
	_ rest.SingularNameProvider = (*Storage)(nil)
	_ rest.CategoriesProvider   = (*Storage)(nil)
)

// New makes the storage of reportimports.
func New(config Config) *Storage {
	resource := reportsv1.SchemeGroupVersion.WithResource("reportimports").GroupResource()
	return &Storage{TableConvertor: rest.NewDefaultTableConvertor(resource), config: config}
}

// New implements rest.Storage.
func (s *Storage) New() runtime.Object { return &reportsv1.ReportImport{} }

// Destroy implements rest.Storage. There is nothing to clean up.
func (s *Storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *Storage) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (s *Storage) GetSingularName() string { return "reportimport" }

// Categories implements rest.CategoriesProvider.
func (s *Storage) Categories() []string { return []string{"scanyard"} }

// Create implements rest.Creater: it writes the objects, removes what has gone, and raises the counter.
// Errors of the database end the import; what was written stays, and is unchanged when the import is sent again.
func (s *Storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	wanted, ok := obj.(*reportsv1.ReportImport)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("must be a ReportImport, is a %T", obj))
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if mistakes := mistakesOfSpec(&wanted.Spec); len(mistakes) > 0 {
		return nil, apierrors.NewInvalid(reportsv1.SchemeGroupVersion.WithKind("ReportImport").GroupKind(), wanted.Name, mistakes)
	}
	dry := options != nil && dryrun.IsDryRun(options.DryRun)
	if err := s.prepare(ctx, &wanted.Spec, dry); err != nil {
		return nil, err
	}
	status := reportsv1.ReportImportStatus{}
	for i := range wanted.Spec.Objects {
		result, err := s.importObject(ctx, wanted.Spec.Objects[i].Raw, dry)
		if err != nil {
			return nil, err
		}
		status.Objects = append(status.Objects, result)
	}
	for i := range wanted.Spec.Removed {
		result, err := s.remove(ctx, &wanted.Spec.Removed[i], dry)
		if err != nil {
			return nil, err
		}
		status.Removed = append(status.Removed, result)
	}
	counter, err := s.raise(ctx, wanted.Spec.MinResourceVersion, dry)
	if err != nil {
		return nil, err
	}
	status.ResourceVersion = strconv.FormatInt(counter, 10)
	if s.config.FreeBytes != nil {
		if free, known := s.config.FreeBytes(); known {
			status.FreeBytes = &free
		}
	}
	// The answer leaves out what was sent: it may be megabytes, which nobody reads.
	wanted.ManagedFields, wanted.Spec.Objects, wanted.Spec.Removed = nil, nil, nil
	wanted.Status = status
	return wanted, nil
}

func mistakesOfSpec(spec *reportsv1.ReportImportSpec) field.ErrorList {
	path := field.NewPath("spec")
	var mistakes field.ErrorList
	if n := len(spec.Objects); n > maxObjects {
		mistakes = append(mistakes, field.TooMany(path.Child("objects"), n, maxObjects))
	}
	if n := len(spec.Removed); n > maxObjects {
		mistakes = append(mistakes, field.TooMany(path.Child("removed"), n, maxObjects))
	}
	if wanted := spec.MinResourceVersion; wanted != nil && *wanted < 1 {
		mistakes = append(mistakes, field.Invalid(path.Child("minResourceVersion"), *wanted, "must be at least 1"))
	}
	if seconds := spec.FreezeSeconds; seconds != nil && (*seconds < 0 || *seconds > maxFreezeSeconds) {
		mistakes = append(mistakes, field.Invalid(path.Child("freezeSeconds"), *seconds, fmt.Sprintf("must be from 0 to %d", maxFreezeSeconds)))
	}
	if len(spec.Objects) == 0 && len(spec.Removed) == 0 && spec.MinResourceVersion == nil && spec.FreezeSeconds == nil {
		mistakes = append(mistakes, field.Required(path.Child("objects"), "must be there unless removed, minResourceVersion or freezeSeconds is"))
	}
	return mistakes
}

// prepare refuses writes where that is wanted, and notes that a move has begun, or is at its switch, before anything is done.
func (s *Storage) prepare(ctx context.Context, spec *reportsv1.ReportImportSpec, dry bool) error {
	if dry {
		return nil
	}
	if seconds := spec.FreezeSeconds; seconds != nil {
		if err := s.config.Freeze(ctx, time.Duration(*seconds)*time.Second); err != nil {
			return err
		}
	}
	switch {
	case s.config.Progress == nil:
		return nil
	case spec.MinResourceVersion != nil:
		return s.config.Progress.Moving(ctx, false)
	case len(spec.Objects) > 0:
		return s.config.Progress.Moving(ctx, true)
	}
	return nil
}

// raise raises the counter, unless that was done before: each raise has all watchers list anew.
func (s *Storage) raise(ctx context.Context, to *int64, dry bool) (int64, error) {
	if to == nil || dry || s.config.Counter.Compacted() >= *to {
		return s.config.Counter.Current(ctx)
	}
	return s.config.Counter.Advance(ctx, *to)
}

// remove deletes an object past its finalizers: where it comes from, it has gone.
func (s *Storage) remove(ctx context.Context, wanted *reportsv1.RemovedReport, dry bool) (reportsv1.ImportedObject, error) {
	result := reportsv1.ImportedObject{Kind: wanted.Kind, Namespace: wanted.Namespace, Name: wanted.Name, UID: wanted.UID, Result: reportsv1.ImportInvalid}
	kind := schema.FromAPIVersionAndKind(wanted.APIVersion, wanted.Kind)
	destination, ok := s.config.Destination(kind)
	switch {
	case !ok:
		result.Message = fmt.Sprintf("%s is not imported", kind)
		return result, nil
	case wanted.Name == "", wanted.UID == "", (wanted.Namespace != "") != destination.Namespaced:
		result.Message = "name and uid must be there, and namespace must fit the scope of the kind"
		return result, nil
	}
	uid := types.UID(wanted.UID)
	err := destination.Storage.Delete(ctx, destination.Key(wanted.Namespace, wanted.Name), destination.New(), &storage.Preconditions{UID: &uid},
		rest.ValidateAllObjectFunc, dry, nil, storage.DeleteOptions{})
	switch {
	case err == nil:
		result.Result = reportsv1.ImportRemoved
	case storage.IsNotFound(err):
		result.Result = reportsv1.ImportAbsent
	case storage.IsInvalidObj(err):
		result.Result, result.Message = reportsv1.ImportConflict, "another object has the name"
	default:
		return result, err
	}
	return result, nil
}

func (s *Storage) importObject(ctx context.Context, raw []byte, dry bool) (reportsv1.ImportedObject, error) {
	result := reportsv1.ImportedObject{Result: reportsv1.ImportInvalid}
	obj, kind, err := s.config.Decoder.Decode(raw, nil, nil)
	if err != nil {
		result.Message = err.Error()
		return result, nil //nolint:nilerr // the mistake of one object, which its result tells
	}
	result.Kind = kind.Kind
	accessor, err := meta.Accessor(obj)
	if err != nil {
		result.Message = err.Error()
		return result, nil //nolint:nilerr // see above
	}
	result.Namespace, result.Name, result.UID = accessor.GetNamespace(), accessor.GetName(), string(accessor.GetUID())
	destination, ok := s.config.Destination(*kind)
	if !ok {
		result.Message = fmt.Sprintf("%s is not imported", kind)
		return result, nil
	}
	if mistakes := mistakesOf(ctx, destination, obj, accessor); len(mistakes) > 0 {
		result.Message = mistakes.ToAggregate().Error()
		return result, nil
	}
	accessor.SetResourceVersion("")
	result.Result, err = destination.write(ctx, obj, accessor, dry)
	if conflict, ok := errors.AsType[*conflictError](err); ok {
		result.Result, result.Message = reportsv1.ImportConflict, conflict.Error()
		return result, nil
	}
	return result, err
}

func mistakesOf(ctx context.Context, to Destination, obj runtime.Object, accessor metav1.Object) field.ErrorList {
	path := field.NewPath("metadata")
	var mistakes field.ErrorList
	if accessor.GetName() == "" {
		mistakes = append(mistakes, field.Required(path.Child("name"), ""))
	}
	if accessor.GetUID() == "" {
		mistakes = append(mistakes, field.Required(path.Child("uid"), "is kept by an import"))
	}
	if namespace := accessor.GetNamespace(); (namespace != "") != to.Namespaced {
		mistakes = append(mistakes, field.Invalid(path.Child("namespace"), namespace, "must fit the scope of the kind"))
	}
	return append(mistakes, to.Validate(ctx, obj)...)
}

// conflictError is an object that must not be overwritten.
type conflictError struct{ uid string }

// Error tells whose the name is.
func (e *conflictError) Error() string { return "another object has the name, its uid is " + e.uid }

// errKept is returned for an object that is as what is to be imported, or newer.
var errKept = errors.New("what is stored is not older")

// write makes the object what is stored, unless that is newer or another one.
func (d *Destination) write(ctx context.Context, obj runtime.Object, accessor metav1.Object, dry bool) (result reportsv1.ImportResult, err error) {
	update := func(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		present, err := meta.Accessor(existing)
		switch {
		case err != nil:
			return nil, nil, err
		case present.GetUID() == "":
			result = reportsv1.ImportCreated
			return obj.DeepCopyObject(), nil, nil
		case present.GetUID() != accessor.GetUID():
			return nil, nil, &conflictError{uid: string(present.GetUID())}
		case isOlder(accessor, present):
			return nil, nil, errKept
		}
		same, err := d.same(existing, obj)
		if err == nil && same {
			err = errKept
		}
		result = reportsv1.ImportUpdated
		return obj.DeepCopyObject(), nil, err
	}
	key := d.Key(accessor.GetNamespace(), accessor.GetName())
	err = d.Storage.GuaranteedUpdate(ctx, key, d.New(), true, nil, update, dry, nil)
	if errors.Is(err, errKept) {
		return reportsv1.ImportUnchanged, nil
	}
	return result, err
}

// same tells whether an object would be stored as another one is.
func (d *Destination) same(stored, obj runtime.Object) (bool, error) {
	stored = stored.DeepCopyObject()
	accessor, err := meta.Accessor(stored)
	if err != nil {
		return false, err
	}
	accessor.SetResourceVersion("")
	before, err := runtime.Encode(d.Storage.Codec, stored)
	if err != nil {
		return false, err
	}
	after, err := runtime.Encode(d.Storage.Codec, obj)
	return bytes.Equal(before, after), err
}

// isOlder tells whether an object is an earlier state than the one that is stored.
func isOlder(object, stored metav1.Object) bool {
	if object.GetGeneration() != stored.GetGeneration() {
		return object.GetGeneration() < stored.GetGeneration()
	}
	return lastManaged(object).Before(lastManaged(stored))
}

// lastManaged is the time of the last change that managedFields tell of.
func lastManaged(object metav1.Object) time.Time {
	var last time.Time
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}
