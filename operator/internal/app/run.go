// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/caches"
	"github.com/scanyard/scanyard/operator/internal/decisions"
	"github.com/scanyard/scanyard/operator/internal/exception"
	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/schedule"
	"github.com/scanyard/scanyard/operator/internal/scrape"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/operator/internal/webhook"
	"github.com/scanyard/scanyard/settings"
)

const (
	// leaseName is the name of secureCodeBox's lease: during a migration its operator and this one never
	// work at the same time if they share a namespace.
	leaseName = "e341d981.securecodebox.io"
	syncCheck = time.Second

	kindsEvery   = 500 * time.Millisecond
	kindsTimeout = time.Minute
)

// Run runs the operator until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	config.QPS, config.Burst = float32(o.QPS), o.Burst
	// As Kubernetes' own controllers do: the API server compresses each event of a watch by itself, which costs both of them
	// CPU time for every event, and the network between the two is fast.
	config.DisableCompression = true
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), executionv1.AddToScheme(scheme), settingsv1alpha2.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if err := awaitKinds(ctx, config); err != nil {
		return err
	}
	mgr, err := newManager(config, scheme, o)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	told, err := decisions.Open(o.DecisionExport, clock.RealClock{}, metrics.Registry) //nolint:contextcheck // it lives until Close, which comes after ctx
	if err != nil {
		return fmt.Errorf("--decision-export: %w", err)
	}
	defer closeDecisions(ctx, told)
	settings := tenancy.NewSource(mgr.GetCache(), o.defaults(), o.WatchNamespaces)
	storage, err := newStore(o.Storage, tenancy.NewBuckets(settings, mgr.GetAPIReader(), clock.RealClock{}))
	if err != nil {
		return err
	}
	// Informers are started by this call's first read and by the watches below. RBAC
	// that lacks a kind shows as an error at start, not as a worker that waits for ever.
	var r *scan.Reconciler
	compared := func(ctx context.Context, s *executionv1.Scan) (bool, error) { return r.IsCompared(ctx, s) } // the server begins after r is made
	if err := addEndpoints(ctx, mgr, config, storage, compared, &o, told); err != nil {
		return err
	}
	sealer, err := addAdmission(ctx, mgr, config, &o, told)
	if err != nil {
		return err
	}
	monitor := store.NewMonitor(storage, clock.RealClock{})
	scanMetrics := scan.NewMetrics(metrics.Registry)
	metrics.Registry.MustRegister(buildInfo(o.Version), scan.NewStateCollector(mgr.GetCache(), scanMetrics), scan.NewFindingCollector(mgr.GetCache(), scanMetrics))
	waiting, err := newQueue(mgr, config, settings, &o, metrics.Registry)
	if err != nil {
		return err
	}
	accounts, err := rbac.NewReader(ctx, mgr, mgr.GetAPIReader(), o.accessMode(), o.WatchNamespaces)
	if err != nil {
		return err
	}
	r = scan.NewReconciler(scan.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: accounts, Events: mgr.GetEventRecorder("scanyard"), Clock: clock.RealClock{},
		Storage: storage, Settings: o.Scan, Expiry: o.Expiry, Jobs: o.Jobs, Metrics: scanMetrics,
		Access: o.accessMode(), Namespaces: o.WatchNamespaces, Tenancy: settings, Queue: waiting, Health: monitor, Decisions: told,
	})
	err = errors.Join(
		mgr.Add(monitor),
		r.SetupWithManager(ctx, mgr, o.Workers),
		addSchedules(ctx, mgr, config, settings, o.Workers),
		tenancy.NewReconciler(tenancy.Options{
			Client: mgr.GetClient(), Events: mgr.GetEventRecorder("scanyard"), Clock: clock.RealClock{}, Places: storage,
		}).SetupWithManager(ctx, mgr, o.WatchNamespaces),
		exception.NewReconciler(exception.Options{
			Client: mgr.GetClient(), Events: mgr.GetEventRecorder("scanyard"), Clock: clock.RealClock{}, Sealer: sealer,
			Target: scan.TargetOf,
		}).SetupWithManager(ctx, mgr),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("object-storage", monitor.Healthz),
		mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// closeDecisions gives the exporter a moment for the last records, when everything else has ended.
func closeDecisions(ctx context.Context, told *decisions.Log) {
	if err := told.Close(context.WithoutCancel(ctx)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Hand the last decisions to the exporter")
	}
}

// awaitKinds waits until the API server knows all kinds: it takes a moment after the
// CRDs have been applied.
func awaitKinds(ctx context.Context, config *rest.Config) error {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var missing error
	err = wait.PollUntilContextTimeout(ctx, kindsEvery, kindsTimeout, true, func(ctx context.Context) (bool, error) {
		if err := servesNewest(ctx, d); err != nil {
			return false, err
		}
		missing = knowsKinds(ctx, d)
		if missing != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Waiting for CRDs", "error", missing.Error())
		}
		return missing == nil, nil
	})
	if errors.Is(err, ErrOldCRDs) {
		return err
	}
	if err != nil && missing != nil {
		return fmt.Errorf("%w; are the CRDs of the chart (crds/) installed, and is the API server up?", missing)
	}
	return err
}

// ErrOldCRDs says that the CRDs are from an earlier release. Helm never upgrades CRDs.
var ErrOldCRDs = errors.New("kubectl apply --server-side -f charts/scanyard/crds")

// servesNewest says which CRD of settings is served in an older version only.
func servesNewest(ctx context.Context, d discovery.DiscoveryInterfaceWithContext) error {
	newest := settingsv1alpha2.SchemeGroupVersion
	older := newest.Group + "/v1alpha1"
	for _, plural := range []string{"scansettings", "clusterscansettings"} {
		served := func(version string) bool {
			list, err := d.ServerResourcesForGroupVersionWithContext(ctx, version)
			return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
		}
		if served(older) && !served(newest.String()) {
			return fmt.Errorf("CRD %s.%s does not serve %s: %w", plural, newest.Group, newest.Version, ErrOldCRDs)
		}
	}
	return nil
}

// knowsKinds says which kind the API server does not know.
func knowsKinds(ctx context.Context, d discovery.DiscoveryInterfaceWithContext) error {
	for pkg, version := range map[string]schema.GroupVersion{
		reflect.TypeFor[executionv1.Scan]().PkgPath():             executionv1.SchemeGroupVersion,
		reflect.TypeFor[settingsv1alpha2.ScanSetting]().PkgPath(): settingsv1alpha2.SchemeGroupVersion,
	} {
		list, err := d.ServerResourcesForGroupVersionWithContext(ctx, version.String())
		if err != nil {
			return fmt.Errorf("the API server does not know %s: %w", version, err)
		}
		known := map[string]bool{}
		for i := range list.APIResources {
			known[list.APIResources[i].Kind] = true
		}
		for o := range cacheOptions() {
			kind := reflect.TypeOf(o).Elem()
			if kind.PkgPath() == pkg && !known[kind.Name()] {
				return fmt.Errorf("the API server does not know the kind %s of %s", kind.Name(), version)
			}
		}
	}
	return nil
}

func newStore(c store.Config, tenants store.Tenants) (*store.Store, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scanyard_storage_requests_total", Help: "Calls to the object storage by operation and result (ok, error).",
	}, []string{"operation", "result"})
	if err := metrics.Registry.Register(calls); err != nil {
		return nil, err
	}
	return store.New(c, store.WithTenants(tenants), store.WithObserver(func(operation string, err error) {
		result := "ok"
		if err != nil {
			result = "error"
		}
		calls.WithLabelValues(operation, result).Inc()
	}))
}

// An operator that cannot renew its lease ends, and the next one reads all Scans
// anew. An API server that is overloaded for twenty seconds is not a reason for
// that, so the lease lasts longer than Kubernetes' usual 15 s, of which renewal
// has 10 s. An operator that ends gives its lease up; only after one that is killed
// does the next wait for the whole duration.
const (
	leaseDuration = 30 * time.Second
	leaseRenewal  = 25 * time.Second
	leaseRetry    = 3 * time.Second
)

func newManager(config *rest.Config, scheme *runtime.Scheme, o Options) (ctrl.Manager, error) {
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       o.metrics(),
		HealthProbeBindAddress:        o.HealthAddress,
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(leaseRenewal),
		RetryPeriod:                   new(leaseRetry),
		Cache:                         o.cache(),
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
	})
}

// metrics says how they are served.
func (o *Options) metrics() metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.MetricsAddress}
	if o.MetricsAuthentication {
		m.SecureServing, m.FilterProvider = true, scrape.NewFilter
	}
	return m
}

// cache says what is read of which namespaces. Cluster-scoped kinds are read in any case.
func (o *Options) cache() cache.Options {
	c := cache.Options{ByObject: cacheOptions(), DefaultNamespaces: caches.Namespaces(o.WatchNamespaces), ReaderFailOnMissingInformer: true}
	if o.Webhook.Service != "" {
		maps.Copy(c.ByObject, webhook.CacheOptions(o.Webhook.Configuration))
	}
	return c
}

func (o *Options) accessMode() rbac.Mode {
	if o.PerScanAccess {
		return rbac.PerScan
	}
	return rbac.Shared
}

// defaults are what holds where no setting says otherwise.
func (o *Options) defaults() settings.Defaults {
	return settings.Defaults{
		StartDeadline: o.Scan.StartDeadline, ScannerDeadline: o.Scan.ScannerDeadline,
		ParserDeadline: o.Scan.ParserDeadline, HookDeadline: o.Scan.HookDeadline, StatusLinks: o.Scan.StatusLinks,
	}
}

// cacheOptions say what is kept of which kinds.
func cacheOptions() map[client.Object]cache.ByObject {
	all := scan.CacheOptions()
	maps.Copy(all, schedule.CacheOptions())
	maps.Copy(all, tenancy.CacheOptions())
	maps.Copy(all, exception.CacheOptions())
	return all
}

// addSchedules adds what starts Scans from ScheduledScans. Its requests are bounded by
// its workers and not by --kube-api-qps, which Scans use up while many of them start.
func addSchedules(ctx context.Context, mgr ctrl.Manager, config *rest.Config, settings *tenancy.Source, workers int) error {
	own := rest.CopyConfig(config)
	own.QPS = -1
	options := client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}
	live, err := client.New(own, options)
	if err != nil {
		return err
	}
	options.Cache = &client.CacheOptions{Reader: mgr.GetCache(), EnableReadYourWritesConsistency: new(true)}
	cached, err := client.New(own, options)
	if err != nil {
		return err
	}
	return schedule.NewReconciler(schedule.Options{
		Tenancy: settings,
		Client:  cached, Live: live, Events: mgr.GetEventRecorder("scanyard"), Clock: clock.RealClock{}, Zone: time.Local,
		Metrics: schedule.NewMetrics(metrics.Registry),
	}).SetupWithManager(ctx, mgr, workers)
}

// cachesSynced says whether the caches have been filled.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), syncCheck)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet: can the operator list and watch all of its kinds?")
		}
		return nil
	}
}
