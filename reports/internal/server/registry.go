// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
	"github.com/scanyard/scanyard/reports/internal/uploads"
)

// deleteWorkers is how many objects of a collection are deleted at a time.
const deleteWorkers = 4

// badApply is how the library begins what it says of an applied object that does not fit the schema.
const badApply = "failed to create typed patch object"

// store serves one resource.
type store struct {
	*genericregistry.Store
	resource  *kinds.Resource
	documents *uploads.Service
	rights    authorizer.Authorizer
}

var (
	_ rest.StandardStorage      = &store{}
	_ rest.ShortNamesProvider   = &store{}
	_ rest.CategoriesProvider   = &store{}
	_ rest.GroupVersionAcceptor = &store{}
	_ rest.TableConvertor       = &store{}
)

func newStore(scheme *runtime.Scheme, resource *kinds.Resource, backend *sqlstorage.Storage) (*store, error) {
	s := newStrategy(scheme, resource)
	registry := &genericregistry.Store{
		NewFunc: resource.Stored.New, NewListFunc: resource.NewList,
		DefaultQualifiedResource:  resource.GroupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: resource.GroupVersion.Group, Resource: resource.Singular()},
		PredicateFunc:             predicateOf(resource),
		CreateStrategy:            s, UpdateStrategy: s, DeleteStrategy: s, ResetFieldsStrategy: s,
		TableConvertor:          tableConvertor{resource: resource},
		DeleteCollectionWorkers: deleteWorkers, ReturnDeletedObject: true,
		Storage:          genericregistry.DryRunnableStorage{Storage: backend, Codec: resource.Stored.Codec},
		StorageVersioner: resource.Stored.Version.GroupVersion(),
	}
	options := generic.RESTOptions{
		StorageConfig:           storagebackend.NewDefaultConfig("", resource.Stored.Codec).ForResource(resource.GroupResource()),
		EnableGarbageCollection: true, DeleteCollectionWorkers: deleteWorkers, ResourcePrefix: resource.Stored.Resource,
	}
	if err := registry.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, fmt.Errorf("make the registry of %s: %w", resource.GroupResource(), err)
	}
	return &store{Store: registry, resource: resource}, nil
}

// predicateOf selects by labels, name, namespace, and the fields that the kind has columns for.
func predicateOf(resource *kinds.Resource) func(labels.Selector, fields.Selector) storage.SelectionPredicate {
	attributes := func(obj runtime.Object) (labels.Set, fields.Set, error) {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, err
		}
		values := fields.Set{metav1.ObjectNameField: accessor.GetName()}
		if resource.Namespaced {
			values["metadata.namespace"] = accessor.GetNamespace()
		}
		if resource.Stored.Selectable != nil {
			maps.Copy(values, resource.Stored.Selectable(obj))
		}
		return accessor.GetLabels(), values, nil
	}
	return func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes}
	}
}

// ShortNames implements rest.ShortNamesProvider.
func (s *store) ShortNames() []string { return s.resource.ShortNames }

// Categories implements rest.CategoriesProvider.
func (*store) Categories() []string { return []string{kinds.Category} }

// AcceptsGroupVersion implements rest.GroupVersionAcceptor.
func (s *store) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == s.resource.GroupVersion || slices.Contains(s.resource.Accepts, gv)
}

// Create implements rest.StandardStorage.
func (s *store) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if mistaken, ok := obj.(*kinds.Mistaken); ok {
		return nil, s.invalid(mistaken)
	}
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if image, ok := obj.(*reportsv1.Image); ok && !image.Spec.External {
		if err := s.mayRegister(ctx, image); err != nil {
			return nil, err
		}
	}
	return s.Store.Create(ctx, obj, validate, options)
}

// mayRegister refuses an Image of a Registry to who does not write the status of Images: those are the workers. Others may
// bring an external Image along, which is in no Registry.
func (s *store) mayRegister(ctx context.Context, image *reportsv1.Image) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(s.resource.GroupResource(), image.Name, errors.New("the user is not known"))
	}
	decision, _, err := s.rights.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: "update", Namespace: request.NamespaceValue(ctx), APIGroup: s.resource.GroupVersion.Group, APIVersion: s.resource.GroupVersion.Version,
		Resource: s.resource.Plural, Subresource: "status", ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("ask who may register images: %w", err))
	}
	if decision != authorizer.DecisionAllow {
		cause := errors.New("only external images may be created by hand: set spec.external, and no registry")
		return apierrors.NewForbidden(s.resource.GroupResource(), image.Name, cause)
	}
	return nil
}

// Get implements rest.Getter. One object is answered with the document that lists and watches do not hold.
func (s *store) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.Store.Get(ctx, name, options)
	if err != nil || s.resource.Stored.Strip == nil || sqlstorage.HeadOnly(ctx) {
		return obj, err
	}
	return obj, s.documents.Fill(ctx, obj)
}

func (s *store) invalid(mistaken *kinds.Mistaken) error {
	kind := s.resource.GroupVersion.WithKind(s.resource.Kind).GroupKind()
	return apierrors.NewInvalid(kind, mistaken.Name, mistaken.Mistakes)
}

// Update implements rest.Updater.
func (s *store) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return s.Store.Update(ctx, name, checkedInfo{UpdatedObjectInfo: info, store: s}, create, update, forceCreate, options)
}

// checkedInfo refuses an update whose body, or whose patch, has values of wrong types.
type checkedInfo struct {
	rest.UpdatedObjectInfo
	store *store
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (i checkedInfo) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj, err := i.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err != nil && strings.HasPrefix(err.Error(), badApply) {
		return nil, apierrors.NewBadRequest(err.Error()) // the library has no code for it
	}
	if mistaken, ok := obj.(*kinds.Mistaken); ok {
		return nil, i.store.invalid(mistaken)
	}
	return obj, err
}

// List implements rest.Lister. Lists of kinds with a document do not hold the document.
func (s *store) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	strip := s.resource.Stored.Strip
	if strip != nil {
		ctx = sqlstorage.WithHeadOnly(ctx)
	}
	list, err := s.Store.List(ctx, options)
	if err != nil {
		return nil, err
	}
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		if strip != nil {
			strip(obj)
		}
		if s.resource.GroupVersion == kinds.Scanyard { // the other kinds get theirs when they are converted
			obj.GetObjectKind().SetGroupVersionKind(s.resource.GroupVersion.WithKind(s.resource.Kind))
		}
		return nil
	})
}

// Watch implements rest.Watcher. Events of kinds with a document do not hold the document.
func (s *store) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	strip := s.resource.Stored.Strip
	if strip == nil {
		return s.Store.Watch(ctx, options)
	}
	events, err := s.Store.Watch(sqlstorage.WithHeadOnly(ctx), options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		strip(event.Object)
		return event, true
	}), nil
}

// statusStore serves the status of a resource.
type statusStore struct {
	registry *store
}

var (
	_ rest.Getter              = &statusStore{}
	_ rest.Updater             = &statusStore{}
	_ rest.ResetFieldsStrategy = &statusStore{}
)

func newStatusStore(s *store) *statusStore {
	registry := *s.Store
	update := statusStrategy{strategy: s.UpdateStrategy.(strategy), clock: clock.RealClock{}}
	registry.UpdateStrategy, registry.ResetFieldsStrategy = update, update
	return &statusStore{registry: &store{Store: &registry, resource: s.resource}}
}

// New implements rest.Storage.
func (s *statusStore) New() runtime.Object { return s.registry.NewFunc() }

// Destroy implements rest.Storage.
func (*statusStore) Destroy() {}

// Get implements rest.Getter.
func (s *statusStore) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.registry.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates.
func (s *statusStore) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return s.registry.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *statusStore) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.registry.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (s *statusStore) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.registry.ConvertToTable(ctx, obj, options)
}
