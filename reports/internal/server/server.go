// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/compatibility"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/scanyard/scanyard/reports/internal/kinds"
	reportsopenapi "github.com/scanyard/scanyard/reports/internal/openapi"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
	"github.com/scanyard/scanyard/reports/internal/uploads"
)

// Name is what the server is called in its own API and logs.
const Name = "reports-apiserver"

// firstPriority is that of the first group in discovery.
const firstPriority = 100

// built is a server that is not running yet.
type built struct {
	handler http.Handler
	start   func(ctx context.Context) error
	finish  func() // after the last request
	tasks   []Task
	health  *health
}

// build makes the server.
func build(options *Options) (*built, error) {
	scheme, err := kinds.NewScheme()
	if err != nil {
		return nil, err
	}
	limits := options.Limits.withDefaults()
	if options.Observer == nil {
		options.Observer = nobody{}
	}
	health := newHealth(options.Store)
	codecs := withoutProtobuf{CodecFactory: serializer.NewCodecFactory(scheme)}
	config := genericapiserver.NewRecommendedConfig(codecs.CodecFactory)
	config.Serializer = codecs
	configure(&config.Config, scheme, options, limits, health)
	tasks, err := options.Access(config)
	if err != nil {
		return nil, fmt.Errorf("set up who may do what: %w", err)
	}
	generic, err := config.Complete().New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	backends, err := newBackends(options, limits)
	if err != nil {
		return nil, err
	}
	groups, err := newGroups(scheme, codecs, options, backends, config.Authorization.Authorizer)
	if err != nil {
		return nil, err
	}
	// In one call: server-side apply converts between the groups, so it must know the types of all.
	if err := generic.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("install the groups: %w", err)
	}
	withoutStrategicPatches(generic.Handler.GoRestfulContainer, codecs)
	// Clients that are not told the group take the first that has the resource.
	for i, gv := range options.Groups.versions() {
		generic.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), firstPriority-i, 1)
	}
	if err := generic.AddReadyzChecks(health); err != nil {
		return nil, fmt.Errorf("install the checks: %w", err)
	}
	prepared := generic.PrepareRun()
	tasks = append(tasks, Task{Name: "database-check", Run: health.watch})
	return &built{
		handler: generic.Handler, tasks: append(tasks, options.Tasks...), health: health,
		start: func(ctx context.Context) error {
			if err := fillRows(ctx, backends); err != nil {
				return err
			}
			if generic.AuditBackend != nil {
				if err := generic.AuditBackend.Run(ctx.Done()); err != nil {
					return fmt.Errorf("begin the audit: %w", err)
				}
			}
			_, _, err := prepared.NonBlockingRunWithContext(ctx, 0)
			return err
		},
		finish: func() {
			if generic.AuditBackend != nil {
				generic.AuditBackend.Shutdown()
			}
		},
	}, nil
}

// fillRows writes what earlier releases did not keep.
func fillRows(ctx context.Context, backends map[string]*sqlstorage.Storage) error {
	for _, backend := range backends {
		if err := backend.FillRows(ctx); err != nil {
			return err
		}
	}
	return nil
}

// withoutProtobuf reads and writes JSON and YAML: the kinds have no form in protobuf. A client that takes JSON beside
// protobuf gets JSON.
type withoutProtobuf struct{ serializer.CodecFactory }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (w withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(w.CodecFactory.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (w withoutProtobuf) DecoderToVersion(decoder runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return kinds.ToleratesMistakes(w.CodecFactory.DecoderToVersion(decoder, gv))
}

func configure(config *genericapiserver.Config, scheme *runtime.Scheme, options *Options, limits Limits, health *health) {
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ExternalAddress = options.Listener.Addr().String()
	config.LoopbackClientConfig = &clientrest.Config{}
	config.MaxRequestBodyBytes = limits.RequestBytes
	config.MaxRequestsInFlight = limits.Reading
	config.MaxMutatingRequestsInFlight = limits.Writing
	config.EnableProfiling = false
	config.EnableIndex = true
	longRunning := config.LongRunningFunc
	config.LongRunningFunc = func(req *http.Request, info *request.RequestInfo) bool {
		return streamed(info) || longRunning(req, info)
	}
	bounds := newBounds(limits, options.Observer)
	config.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		handler = withHeadOnly(handler, config.Serializer)
		handler = bounds.withWatches(handler, config.Serializer)
		handler = bounds.withBodies(handler, config.Serializer)
		handler = notePassed(handler)
		handler = genericapiserver.DefaultBuildHandlerChain(handler, config)
		handler = bounds.countRefused(handler)
		handler = withoutImpersonation(handler, config.Serializer)
		return health.refuseWhenStopping(handler, config.Serializer)
	}
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(reportsopenapi.Definitions, namer)
	config.OpenAPIConfig.Info.Title = Name
	config.OpenAPIConfig.GetDefinitionName = servedNames(namer)
	config.OpenAPIConfig.PostProcessSpec = withoutDiscovery
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(reportsopenapi.Definitions, namer)
	config.OpenAPIV3Config.Info.Title = Name
	config.OpenAPIV3Config.GetDefinitionName = servedNames(namer)
}

// withoutDiscovery leaves the paths of groups and versions out of OpenAPI v2. kube-apiserver merges it with that of CRDs, and where
// a path is there twice, keeps what begins with one of the other paths: a version's own path begins all paths of the version, so that
// with a CRD of a served group the merge would fail, and with it OpenAPI v2 of the whole cluster.
func withoutDiscovery(openAPI *spec.Swagger) (*spec.Swagger, error) {
	maps.DeleteFunc(openAPI.Paths.Paths, func(path string, _ spec.PathItem) bool { return strings.HasSuffix(path, "/") })
	return openAPI, nil
}

const gvkExtension = "x-kubernetes-group-version-kind"

// servedNames leaves the internal versions out of the kinds that OpenAPI names for a type.
func servedNames(namer *openapi.DefinitionNamer) func(string) (string, spec.Extensions) {
	return func(name string) (string, spec.Extensions) {
		name, extensions := namer.GetDefinitionName(name)
		all, ok := extensions[gvkExtension].([]any)
		if !ok {
			return name, extensions
		}
		served := slices.DeleteFunc(slices.Clone(all), func(kind any) bool {
			return kind.(map[string]any)["version"] == runtime.APIVersionInternal
		})
		extensions = maps.Clone(extensions)
		extensions[gvkExtension] = served
		return name, extensions
	}
}

// newBackends makes the storage of all kinds.
func newBackends(options *Options, limits Limits) (map[string]*sqlstorage.Storage, error) {
	backends := map[string]*sqlstorage.Storage{}
	for _, stored := range kinds.AllStored {
		backend, err := sqlstorage.New(sqlstorage.Config{
			Store: options.Store, Kind: stored.Kind, Codec: stored.Codec, New: stored.New,
			GroupResource: schema.GroupResource{Group: stored.Version.Group, Resource: stored.Resource},
			Options:       sqlstorage.Options{MaxListBytes: limits.ListBytes, Watching: options.Observer.Watching(stored.Resource)},
		})
		if err != nil {
			return nil, fmt.Errorf("make the storage of %s: %w", stored.Resource, err)
		}
		backends[stored.Resource] = backend
	}
	return backends, nil
}

// newGroups makes the resources of all groups that are served.
func newGroups(scheme *runtime.Scheme, codecs withoutProtobuf, options *Options, backends map[string]*sqlstorage.Storage, rights authorizer.Authorizer) (
	[]*genericapiserver.APIGroupInfo, error,
) {
	documents := uploads.New(uploads.Config{
		Store: options.Store, Storage: func(resource string) *sqlstorage.Storage { return backends[resource] }, Suppressed: options.Suppressed,
	})
	var groups []*genericapiserver.APIGroupInfo
	for _, gv := range options.Groups.versions() {
		resources, err := newResources(scheme, gv, backends, documents, rights)
		if err != nil {
			return nil, err
		}
		if gv == kinds.Scanyard {
			maps.Copy(resources, documents.Resources())
			if err := addVirtual(resources, scheme, options, backends, documents); err != nil {
				return nil, err
			}
		}
		group := genericapiserver.NewDefaultAPIGroupInfo(gv.Group, scheme, runtime.NewParameterCodec(scheme), codecs.CodecFactory)
		group.NegotiatedSerializer = codecs
		group.PrioritizedVersions = []schema.GroupVersion{gv}
		group.VersionedResourcesStorageMap[gv.Version] = resources
		groups = append(groups, &group)
	}
	if len(groups) == 0 {
		return nil, errors.New("no group is served")
	}
	return groups, nil
}

// versions are the group versions that are served.
func (g Groups) versions() []schema.GroupVersion {
	var served []schema.GroupVersion
	for _, group := range []struct {
		on bool
		gv schema.GroupVersion
	}{{g.WGPolicy, kinds.WGPolicy}, {g.OpenReports, kinds.OpenReports}, {g.Scanyard, kinds.Scanyard}, {g.Prext, kinds.Prext}} {
		if group.on {
			served = append(served, group.gv)
		}
	}
	return served
}

func newResources(scheme *runtime.Scheme, gv schema.GroupVersion, backends map[string]*sqlstorage.Storage, documents *uploads.Service,
	rights authorizer.Authorizer,
) (
	map[string]rest.Storage, error,
) {
	resources := map[string]rest.Storage{}
	for i := range kinds.Table {
		resource := &kinds.Table[i]
		if resource.GroupVersion != gv {
			continue
		}
		s, err := newStore(scheme, resource, backends[resource.Stored.Resource])
		if err != nil {
			return nil, err
		}
		s.documents, s.rights = documents, rights
		resources[resource.Plural] = s
		if resource.Status {
			resources[resource.Plural+"/status"] = newStatusStore(s)
		}
	}
	return resources, nil
}

func addVirtual(resources map[string]rest.Storage, scheme *runtime.Scheme, options *Options, backends map[string]*sqlstorage.Storage,
	documents *uploads.Service,
) error {
	if options.Virtual == nil {
		return nil
	}
	virtual, err := options.Virtual(Deps{Store: options.Store, Scheme: scheme, Documents: documents, Storage: func(resource string) storage.Interface {
		if backend, ok := backends[resource]; ok {
			return backend
		}
		return nil
	}})
	if err != nil {
		return fmt.Errorf("make the virtual resources: %w", err)
	}
	for name, resource := range virtual {
		if _, taken := resources[name]; taken {
			return fmt.Errorf("make the virtual resources: %s is stored", name)
		}
		resources[name] = resource
	}
	return nil
}
