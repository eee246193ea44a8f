// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/job"
	"github.com/scanyard/scanyard/registry/internal/publish"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/registry"
	"github.com/scanyard/scanyard/registry/internal/runs"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

const (
	leaseName = "registry-controller"
	// The API server is asked for little, and often at once: a job that begins asks for all of its items.
	queriesPerSecond, queriesBurst = 50, 100
)

// Run runs the controller until ctx ends.
func Run(ctx context.Context, kubernetes *rest.Config, o *Options) error {
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(levels[o.LogLevel])}))
	ctrl.SetLogger(log)
	kubernetes.QPS, kubernetes.Burst = queriesPerSecond, queriesBurst
	scheme := runtime.NewScheme()
	adders := []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, registryv1alpha1.AddToScheme, reportsv1.AddToScheme, executionv1.AddToScheme, settingsv1alpha2.AddToScheme,
	}
	for _, add := range adders {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(kubernetes, ctrl.Options{
		Scheme: scheme, Logger: log, Cache: cache.Options{DefaultNamespaces: namespaces(o)}, Metrics: metricsserver.Options{BindAddress: o.Metrics},
		HealthProbeBindAddress: o.Health, LeaderElection: o.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true, Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	direct, err := client.New(kubernetes, client.Options{Scheme: scheme, Mapper: manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := assemble(manager, direct, log, o); err != nil {
		return err
	}
	if err := addAdmission(ctx, manager, direct, o); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func namespaces(o *Options) map[string]cache.Config {
	if len(o.config.Namespaces) == 0 {
		return nil
	}
	all := map[string]cache.Config{}
	for _, name := range o.config.Namespaces {
		all[name] = cache.Config{}
	}
	return all
}

// assemble makes what works and ties it together.
func assemble(manager ctrl.Manager, direct client.Client, log logr.Logger, o *Options) error {
	real := clock.RealClock{}
	s := newState(manager.GetClient(), direct, log.WithName("state"))
	settings := tenancy.NewSource(o.config, manager.GetCache(), direct)
	var reconcilers map[string]*runs.Reconciler
	counts := newCounts()
	f := feeder.New(feeder.Options{
		Clock: real, Log: log.WithName("feeder"), Admitted: counts.admitted,
		Bounds: feeder.Bounds{
			Concurrent: o.config.Quotas.Concurrent, HostConcurrent: o.config.Hosts.Concurrent, HostRequests: o.config.Hosts.RequestsPerSecond,
			Bytes: o.config.Quotas.BytesPerDay.Value(),
		},
		Woken: func(namespace, kind, name string) { reconcilers[kind].Wake(namespace, name) },
	})
	counts.feeder = f
	counts.maxAge.Set(o.config.MaxAge().Seconds())
	w := &work{options: o, client: direct, clock: real, feeder: f, state: s, log: log.WithName("queue"), data: &databases{
		client: manager.GetClient(), reports: direct, config: o.config, feeder: f, clock: real, log: log.WithName("databases"),
		counted: counts.registries, events: manager.GetEventRecorder("registry-controller"), told: map[string]string{},
	}, dead: counts.buried}
	options := runs.Options{
		Client: manager.GetClient(), Reports: direct, Feeder: f, Events: manager.GetEventRecorder("registry-controller"), Clock: real, Config: o.config,
		Limits: settings.Limits, Away: s.away, Zones: zone, Cancel: w.cancel,
		Unaffected: func(n int64) { counts.unaffected.Add(float64(n)) },
	}
	reconcilers = map[string]*runs.Reconciler{
		string(job.Discovery): runs.NewReconciler(job.Discovery, options), string(job.Scan): runs.NewReconciler(job.Scan, options),
	}
	w.ended = func(e queue.Ended) {
		counts.ended(e)
		reconcilers[string(job.Discovery)].Previewed(e)
		f.Ended(e)
	}
	bounds, err := boundsOf(o)
	if err != nil {
		return err
	}
	registries := registry.NewReconciler(registry.Options{
		Client: manager.GetClient(), Events: manager.GetEventRecorder("registry-controller"), Clock: real, Bounds: bounds, Limits: settings.Limits,
		Away: s.away, Changed: s.changed,
	})
	published := publish.NewReconciler(publish.Options{Client: manager.GetClient(), Direct: direct, Clock: real})
	return errors.Join(
		metrics.Registry.Register(counts), registries.SetupWithManager(manager), published.SetupWithManager(manager),
		reconcilers[string(job.Discovery)].SetupWithManager(manager), reconcilers[string(job.Scan)].SetupWithManager(manager),
		manager.Add(w), manager.Add(&settingsWatch{settings, s, real}), manager.AddHealthzCheck("alive", healthz.Ping),
		manager.AddReadyzCheck("reports", func(*http.Request) error { return s.isReady() }),
	)
}

// boundsOf are those of a Registry.
func boundsOf(o *Options) (registry.Bounds, error) {
	rules, err := o.config.Rules()
	if err != nil {
		return registry.Bounds{}, err
	}
	return registry.Bounds{
		Egress: rules, CloudIdentityNamespaces: o.config.CloudIdentityNamespaces, Adapters: o.config.Adapters, Registries: o.config.Quotas.Registries,
		Zones: zone,
	}, nil
}

// zone finds a time zone; without a name it is that of the controller.
func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	return time.LoadLocation(name)
}
