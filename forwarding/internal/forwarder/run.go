// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/clusterid"
	"github.com/scanyard/scanyard/forwarding/internal/follow"
	"github.com/scanyard/scanyard/forwarding/internal/reportsapi"
	"github.com/scanyard/scanyard/forwarding/internal/results"
)

const (
	// lease is the name of the Lease by which one of several forwarders works.
	lease   = "scanyard-forwarder"
	eventer = "scanyard-forwarder"
	// Garbage is collected when there is half as much of it as of what is used: most of it is records that were sent.
	envCollector   = "GOGC"
	collectAt      = 50
	shutdownPeriod = 20 * time.Second
	headerTimeout  = 10 * time.Second
)

// runFlags are those of forwarder run.
type runFlags struct {
	options Options

	kubeconfig, namespace, clusterID        string
	operatorURL, operatorNamespace, results string
	token, fileRoot, listen                 string
	workers                                 int
	leaderElect, printAddress, storage      bool
}

func newRun(o Options) *cobra.Command {
	f := &runFlags{options: o}
	command := &cobra.Command{
		Use: "run", Short: "Follow the Scans of a cluster and send their results to the sinks of settings",
		Long: `Follow the Scans of a cluster and send their results to the sinks that ClusterScanSetting and ScanSettings name in resultForwarding.

The forwarder has no state of its own: how far each sink has a Scan stands in the Scan's status. Of several forwarders one works.
It reads results from the operator's results endpoint, which charts/scanyard serves with resultsEndpoint.enabled.`,
		Example: "  forwarder run --namespace scanyard-system --operator-url https://scanyard.scanyard-system.svc:8443",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "file with the access to the cluster; in a pod, its own")
	flags.StringVar(&f.namespace, "namespace", "", "namespace of the release; default: $"+envNamespace)
	flags.StringVar(&f.clusterID, "cluster-id", "", "ID of the cluster, a UUID, where there is none yet; default: the UID of the namespace kube-system")
	flags.StringVar(&f.operatorURL, "operator-url", "", "URL of the operator's HTTPS server (required)")
	flags.StringVar(&f.operatorNamespace, "operator-namespace", "", "namespace of the operator; default: that of the release")
	flags.StringVar(&f.results, "results-ca-configmap", apiresults.CAConfigMap, "ConfigMap of the operator with the authority of its certificate")
	flags.StringVar(&f.token, "results-token-file", "/var/run/secrets/scanyard/results/token", "file with a token for the audience "+apiresults.Audience)
	flags.StringVar(&f.fileRoot, "file-root", "", "directory below which sinks of provider file may write; empty: none may")
	flags.StringVar(&f.listen, "http-listen", ":8080", "address of /healthz, /readyz and /metrics")
	flags.IntVar(&f.workers, "workers", 4, "how many Scans are sent at a time")
	flags.BoolVar(&f.leaderElect, "leader-elect", true, "work only while holding the Lease "+lease)
	flags.BoolVar(&f.storage, "storage-switch", false, "have results removed that every sink has, where inClusterStorage.afterForwarding says so")
	flags.BoolVar(&f.printAddress, "print-address", false, "print one line of JSON with the address when it listens")
	return command
}

func (f *runFlags) check() error {
	f.namespace = firstOf(f.namespace, f.options.Getenv(envNamespace))
	f.operatorNamespace = firstOf(f.operatorNamespace, f.namespace)
	switch {
	case f.namespace == "":
		return wrong(fmt.Errorf("--namespace is missing, and so is the variable %s: name the namespace of the release", envNamespace))
	case f.operatorURL == "":
		return wrong(errors.New("--operator-url is missing: name the operator's HTTPS server, such as https://scanyard.scanyard-system.svc:8443"))
	case f.workers < 1:
		return wrongFlag("workers", fmt.Errorf("%d is too few: at least 1 Scan must be sent at a time", f.workers))
	}
	if f.clusterID != "" {
		if err := clusterid.Check(f.clusterID); err != nil {
			return wrongFlag("cluster-id", err)
		}
	}
	return nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (f *runFlags) run(ctx context.Context) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.options.Getenv(envCollector) == "" {
		debug.SetGCPercent(collectAt)
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(f.options.Err, nil)))
	access, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return wrongFlag("kubeconfig", err)
	}
	access.QPS = -1 // the API server says itself what is too much; the default is five Scans in a second
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return wrongFlag("http-listen", err)
	}
	mgr, err := f.manager(access)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := f.add(ctx, mgr, access, listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	if f.printAddress {
		line := map[string]any{"program": "forwarder", "pid": os.Getpid(), "http": listener.Addr().String()}
		if err := json.NewEncoder(f.options.Out).Encode(line); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	return mgr.Start(ctx)
}

func (f *runFlags) manager(access *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), executionv1.AddToScheme(scheme), settingsv1alpha2.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	period := shutdownPeriod
	return ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: f.leaderElect, LeaderElectionID: lease, LeaderElectionNamespace: f.namespace, LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout: &period,
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		// No Secret and no ConfigMap is in a cache: the forwarder may read a few by name.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
}

// add has the manager do everything.
func (f *runFlags) add(ctx context.Context, mgr ctrl.Manager, access *rest.Config, listener net.Listener) error {
	if err := mgr.Add(server{listener: listener, cached: mgr.GetCache()}); err != nil {
		return err
	}
	where, err := results.New(results.Options{URL: f.operatorURL, TokenFile: f.token, Roots: f.roots(mgr.GetAPIReader()), Now: clock.RealClock{}.Now})
	if err != nil {
		return wrongFlag("operator-url", err)
	}
	recorder, figures := mgr.GetEventRecorder(eventer), follow.NewMetrics(metrics.Registry)
	direct, err := client.New(access, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	id, err := clusterid.Ensure(ctx, direct, f.namespace, f.clusterID)
	if err != nil {
		return err
	}
	if id.Foreign != "" {
		figures.Foreign()
		about := &corev1.ConfigMap{}
		about.Namespace, about.Name = f.namespace, clusterid.ConfigMap
		recorder.Eventf(about, nil, corev1.EventTypeWarning, "ClusterIDForeign", "Start", "%s",
			"the cluster has the ID of another one, as after a backup was restored: delete the ConfigMap to have one made, if that is so")
	}
	keys, err := follow.EnsureKeys(ctx, direct, mgr.GetAPIReader(), f.namespace)
	if err != nil {
		return err
	}
	var reports follow.Reports // nil: nothing is given up
	if f.storage {
		if reports, err = reportsapi.New(access); err != nil {
			return err
		}
	}
	return follow.New(follow.Options{
		Reports: reports, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: recorder, Results: where, Namespace: f.namespace, ClusterID: id.Value,
		Version: f.options.Version, FileRoot: f.fileRoot, Servers: f.servers(access), Workers: f.workers,
		Clock: clock.RealClock{}, Random: rand.Float64, Metrics: figures,
	}, keys).SetupWithManager(mgr)
}

// roots reads the authority of the operator.
func (f *runFlags) roots(live client.Reader) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		published := &corev1.ConfigMap{}
		if err := live.Get(ctx, client.ObjectKey{Namespace: f.operatorNamespace, Name: f.results}, published); err != nil {
			return nil, err
		}
		return []byte(published.Data[apiresults.CAKey]), nil
	}
}

// servers are the addresses of the API server, as far as they are known.
func (f *runFlags) servers(access *rest.Config) []netip.Prefix {
	var found []netip.Prefix
	hosts := []string{f.options.Getenv("KUBERNETES_SERVICE_HOST")}
	if at, err := url.Parse(access.Host); err == nil {
		hosts = append(hosts, at.Hostname())
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			found = append(found, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return found
}

// server answers probes and shows metrics, also while another forwarder works.
type server struct {
	listener net.Listener
	cached   cache.Cache
}

var _ manager.LeaderElectionRunnable = server{}

// NeedLeaderElection is false.
func (server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s server) Start(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		within, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !s.cached.WaitForCacheSync(within) {
			http.Error(w, "Scans and settings are not read yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	serving := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() {
		if err := serving.Close(); err != nil {
			ctrl.Log.Error(err, "Close the HTTP server")
		}
	})
	defer stop()
	if err := serving.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
