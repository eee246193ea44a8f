// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"math"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/reportimports"
	"github.com/scanyard/scanyard/reports/internal/server"
)

// newImports makes the resource by which "scanyard reports migrate" writes reports. RBAC gives it to administrators only.
func newImports(deps server.Deps, sqliteFile string) *reportimports.Storage {
	internal := func(gv schema.GroupVersion) schema.GroupVersion {
		return schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	}
	return reportimports.New(reportimports.Config{
		Decoder: serializer.NewCodecFactory(deps.Scheme).UniversalDecoder(internal(kinds.WGPolicy), internal(kinds.OpenReports)),
		Counter: deps.Store, FreeBytes: freeBytes(sqliteFile), Progress: deps.Store, Freeze: deps.Store.Freeze,
		Destination: func(kind schema.GroupVersionKind) (reportimports.Destination, bool) {
			for i := range kinds.Table {
				resource := &kinds.Table[i]
				gv := resource.GroupVersion
				if gv.WithKind(resource.Kind) == kind && (gv == kinds.WGPolicy || gv == kinds.OpenReports) {
					return destinationOf(deps, resource), true
				}
			}
			return reportimports.Destination{}, false
		},
	})
}

func destinationOf(deps server.Deps, resource *kinds.Resource) reportimports.Destination {
	stored := resource.Stored
	return reportimports.Destination{
		Storage: genericregistry.DryRunnableStorage{Storage: deps.Storage(stored.Resource), Codec: stored.Codec},
		New:     stored.New, Namespaced: resource.Namespaced,
		Key: func(namespace, name string) string {
			if namespace == "" {
				return "/" + stored.Resource + "/" + name
			}
			return "/" + stored.Resource + "/" + namespace + "/" + name
		},
		Validate: func(_ context.Context, obj runtime.Object) field.ErrorList {
			path := field.NewPath("metadata")
			accessor, err := meta.Accessor(obj)
			if err != nil {
				return field.ErrorList{field.InternalError(path, err)}
			}
			return append(apivalidation.ValidateObjectMetaAccessor(accessor, resource.Namespaced, apivalidation.NameIsDNSSubdomain, path), resource.Validate(obj)...)
		},
	}
}

// freeBytes tells what the volume of the database has left; nil for databases elsewhere.
func freeBytes(sqliteFile string) func() (int64, bool) {
	if sqliteFile == "" {
		return nil
	}
	return func() (int64, bool) {
		var volume syscall.Statfs_t
		if err := syscall.Statfs(filepath.Dir(sqliteFile), &volume); err != nil || volume.Bsize <= 0 {
			return 0, false
		}
		free := float64(volume.Bavail) * float64(volume.Bsize)
		return int64(min(free, math.MaxInt64/2)), true
	}
}
