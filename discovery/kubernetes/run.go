// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

const (
	configEvery  = 5 * time.Second
	gatewayEvery = time.Minute
	syncCheck    = time.Second
)

// ErrRestart ends Run where it has to be started again: the configuration file has
// changed, or the cluster has begun to serve the Gateway API.
var ErrRestart = errors.New("start again")

// RunOptions are what Run needs beside the configuration file.
type RunOptions struct {
	// ConfigFile is the path of the configuration.
	ConfigFile string
	// Namespace is the namespace of the pod and of the Lease.
	Namespace string
	// QPS and Burst bound the requests to the API server.
	QPS   float32
	Burst int
	// Registry takes the metrics; the served one where nil.
	Registry prometheus.Registerer
	// Clock is the source of time; nil is the machine's clock.
	Clock clock.PassiveClock
	// SkipNameValidation allows a second run in one process, in tests.
	SkipNameValidation bool
}

// Run runs the discovery until the context ends. It returns ErrRestart where it is to be
// started again.
func Run(ctx context.Context, server *rest.Config, o RunOptions) error {
	raw, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	c, err := config.Load(filepath.Base(o.ConfigFile), raw)
	if err != nil {
		return err
	}
	if o.Registry == nil {
		o.Registry = metrics.Registry
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	server = rest.CopyConfig(server)
	server.QPS, server.Burst = o.QPS, o.Burst
	mgr, err := newManager(server, c, o)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	served, err := servesGateways(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	m := NewMetrics(o.Registry)
	r := NewReconciler(Options{
		Client: mgr.GetClient(), Config: c, Events: mgr.GetEventRecorder("scanyard-autodiscovery"), Clock: o.Clock, Metrics: m, Gateway: served,
	})
	runnables := []manager.Runnable{everyReplica{watchFile(o.ConfigFile, raw, m)}}
	if c.GatewayAutoDiscovery.Enabled && !served {
		runnables = append(runnables, everyReplica{watchGateways(mgr.GetRESTMapper())})
	}
	for _, each := range runnables {
		if err := mgr.Add(each); err != nil {
			return err
		}
	}
	err = errors.Join(
		r.SetupWithManager(mgr),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(config *rest.Config, c *config.Compiled, o RunOptions) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return nil, err
	}
	l := &c.LeaderElection
	options := ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: c.Metrics.BindAddress},
		HealthProbeBindAddress:        c.Health.HealthProbeBindAddress,
		LeaderElection:                l.LeaderElect,
		LeaderElectionID:              l.ResourceName,
		LeaderElectionNamespace:       l.ResourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{
			ByObject: cacheOptions(c.FieldOwner()), DefaultTransform: strip, ReaderFailOnMissingInformer: true,
		},
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
	}
	if options.LeaderElectionNamespace == "" {
		options.LeaderElectionNamespace = o.Namespace
	}
	for to, d := range map[**time.Duration]time.Duration{
		&options.LeaseDuration: l.LeaseDuration.Duration, &options.RenewDeadline: l.RenewDeadline.Duration, &options.RetryPeriod: l.RetryPeriod.Duration,
	} {
		if d > 0 {
			*to = &d
		}
	}
	if o.SkipNameValidation {
		options.Controller.SkipNameValidation = new(true)
	}
	return ctrl.NewManager(config, options)
}

// everyReplica runs on replicas that do not lead too.
type everyReplica struct{ manager.RunnableFunc }

// NeedLeaderElection says that it does not.
func (everyReplica) NeedLeaderElection() bool { return false }

// watchFile ends the process when the configuration has changed to another valid one. An invalid one
// is reported, and the one before stays in force.
func watchFile(path string, before []byte, m *Metrics) manager.RunnableFunc {
	return func(ctx context.Context) error {
		log := ctrl.LoggerFrom(ctx).WithValues("file", path)
		seen := before
		return each(ctx, configEvery, func() error {
			raw, err := os.ReadFile(path)
			if err != nil || bytes.Equal(raw, seen) {
				return nil //nolint:nilerr // while a ConfigMap is replaced the file is not there
			}
			seen = raw
			if bytes.Equal(raw, before) {
				m.invalid.Set(0)
				return nil
			}
			if _, err := config.Load(filepath.Base(path), raw); err != nil {
				m.invalid.Set(1)
				log.Error(err, "The changed configuration is refused; the one before stays in force")
				return nil
			}
			log.Info("The configuration has changed; starting again")
			return ErrRestart
		})
	}
}

// watchGateways ends the process when the cluster has begun to serve the Gateway API.
func watchGateways(mapper meta.RESTMapper) manager.RunnableFunc {
	return func(ctx context.Context) error {
		return each(ctx, gatewayEvery, func() error {
			if served, err := servesGateways(mapper); err != nil || !served {
				return nil //nolint:nilerr // the next tick reads again
			}
			ctrl.LoggerFrom(ctx).Info("The cluster serves the Gateway API now; starting again")
			return ErrRestart
		})
	}
}

// each calls a function again and again until it returns an error or the context ends.
func each(ctx context.Context, interval time.Duration, f func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := f(); err != nil {
				return err
			}
		}
	}
}

// cachesSynced says whether everything that is looked at was read.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncCheck)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return fmt.Errorf(
				"what is in the cluster is not read yet; may the ServiceAccount list it all, and are the CRDs of %s installed?",
				executionv1.SchemeGroupVersion.Group,
			)
		}
		return nil
	}
}
