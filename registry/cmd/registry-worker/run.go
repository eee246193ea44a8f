// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/clock"
	"github.com/scanyard/scanyard/registry/internal/cloud"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/worker"
)

const (
	defaultDrain = 60 * time.Second
	// queries to the API server; Registries and jobs are read for each item.
	queriesPerSecond, burst = 50, 100
	headerTimeout           = 10 * time.Second
	closing                 = 5 * time.Second
	queueRetry              = 2 * time.Second
)

// defaultSlots are those of a worker that says nothing else.
func defaultSlots() map[string]int { return map[string]int{"discover": 2, "sbom": 1, "match": 4} }

// steps are the steps as the flag --slots names them.
var steps = map[string]queue.Step{"discover": queue.Discover, "sbom": queue.SBOM, "match": queue.Match}

// runOptions are the flags of run.
type runOptions struct {
	config, kubeconfig, name, namespace string
	namespaces, natsURLs                []string
	natsUser, natsPassword, natsCA      string
	natsCredentials                     string
	cacheDir, adaptersDir, logLevel     string
	metricsAddress, probeAddress        string
	slots                               map[string]int
	drain                               time.Duration
}

// newRun is the command that works on what the controller lets in.
func newRun() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use: "run", Short: "List registries, make SBOMs and match them, as the controller asks", Args: cobra.NoArgs,
		Long: `Takes work from the queue: lists repositories, has adapters make SBOMs and match them, and writes what comes of it
to the reports API. On SIGTERM nothing more is taken; what was begun has the time of --drain, and the rest is given back.`,
		Example: "  registry-worker run --config=config.yaml --nats-url=tls://nats:4222 --nats-password-file=worker-password --cache-dir=/var/cache/scanyard",
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "worker"
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "`file` of kind RegistryScanningConfig; without it the defaults hold")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how the API server is reached; without it the pod's account is used")
	f.StringVar(&o.name, "name", tokenOf(hostname), "name of this worker: lower-case letters, digits and dashes")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the installation, with the Secrets of databases; $POD_NAMESPACE by default")
	f.StringSliceVar(&o.namespaces, "namespaces", nil, "namespaces to work for; without it all of them, or those of --config")
	f.StringSliceVar(&o.natsURLs, "nats-url", nil, "`address` of the queue, such as tls://registry-nats:4222; may be given several times")
	f.StringVar(&o.natsUser, "nats-user", queue.WorkerUser, "user of the queue")
	f.StringVar(&o.natsPassword, "nats-password-file", "", "`file` of the user's password")
	f.StringVar(&o.natsCA, "nats-ca-file", "", "`file` of certificates that the queue's is checked with; without it those of the system")
	f.StringVar(&o.natsCredentials, "nats-credentials-file", "", "`file` of credentials for an external NATS, instead of user and password")
	f.StringVar(&o.cacheDir, "cache-dir", "", "`directory` of layer analyses, SBOMs and databases")
	f.StringVar(&o.adaptersDir, "adapters-dir", "/usr/libexec/scanyard/adapters", "`directory` of the adapters' programs")
	f.StringToIntVar(&o.slots, "slots", defaultSlots(), "how many messages of a step are worked on at once")
	f.DurationVar(&o.drain, "drain", defaultDrain, "how long what was begun may go on after SIGTERM")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "`address` of /metrics")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return c
}

// tokenOf makes a name that can be a part of a subject.
func tokenOf(name string) string {
	token := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	const longest = 63
	return strings.Trim(token[:min(len(token), longest)], "-")
}

// check tells what is wrong with the flags.
func (o *runOptions) check() error {
	var wrong []error
	refuse := func(format string, arguments ...any) { wrong = append(wrong, fmt.Errorf(format, arguments...)) }
	if o.cacheDir == "" {
		refuse("--cache-dir: a directory is needed")
	}
	if len(o.natsURLs) == 0 {
		refuse("--nats-url: an address is needed")
	}
	if o.natsCredentials == "" && o.natsPassword == "" {
		refuse("--nats-password-file: a file is needed, or --nats-credentials-file")
	}
	if o.name == "" || o.name != tokenOf(o.name) {
		refuse("--name: %q must be lower-case letters, digits and dashes", o.name)
	}
	if o.drain < 0 {
		refuse("--drain: must not be less than zero")
	}
	for step, n := range o.slots {
		if _, known := steps[step]; !known {
			refuse("--slots: there is no step %q; write discover, sbom or match", step)
		}
		if n < 0 {
			refuse("--slots: %s must not be less than zero", step)
		}
	}
	return errors.Join(wrong...)
}

func (o *runOptions) run(ctx context.Context) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	read, err := config.Read(o.config)
	if err != nil {
		return err
	}
	if len(o.namespaces) == 0 {
		o.namespaces = read.Namespaces
	}
	kube, err := o.cluster()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := worker.NewMetrics(registry)
	options, err := o.options(ctx, read, kube, log, metrics)
	if err != nil {
		return err
	}
	// Readiness tells whether the parts below are there: the probes answer from the beginning.
	probes, ready := probesOf()
	stopServing, err := o.serve(ctx, registry, probes, log)
	if err != nil {
		return err
	}
	defer stopServing()
	if options.Queue, err = o.connect(ctx, log); err != nil {
		return err
	}
	defer options.Queue.Close()
	if options.Engine, err = o.engine(ctx, read, log, metrics); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, options.Engine.Close()) }()
	w := worker.New(options)
	ready(w.Ready)
	log.Info("this worker takes work", "name", o.name, "slots", o.slots, "adapters", read.Adapters)
	err = w.Run(ctx)
	log.Info("this worker has ended", "name", o.name)
	return err
}

// options are those of a worker, without the parts that have to be closed.
func (o *runOptions) options(ctx context.Context, read *config.Config, kube *rest.Config, log *slog.Logger, metrics *worker.Metrics) (worker.Options, error) {
	rules, err := read.Rules()
	if err != nil {
		return worker.Options{}, err
	}
	rules.Kept = o.kept(ctx, kube, log)
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(eventsv1.AddToScheme(scheme))
	utilruntime.Must(registryv1alpha1.AddToScheme(scheme))
	cluster, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return worker.Options{}, fmt.Errorf("make a client of the API server: %w", err)
	}
	reports, err := reportsclient.New(reportsclient.Options{Config: kube, Clock: clock.Real{}})
	if err != nil {
		return worker.Options{}, err
	}
	slots := map[queue.Step]int{}
	for name, step := range steps {
		slots[step] = defaultSlots()[name]
		if n, said := o.slots[name]; said {
			slots[step] = n
		}
	}
	var roots *x509.CertPool
	if read.CABundle != "" {
		if roots, err = x509.SystemCertPool(); err != nil {
			return worker.Options{}, fmt.Errorf("read the system's certificates: %w", err)
		}
		roots.AppendCertsFromPEM([]byte(read.CABundle))
	}
	return worker.Options{
		Name: o.name, Namespace: o.namespace, Namespaces: o.namespaces, Config: read, Reports: reports, Cluster: cluster, Dialer: egress.NewDialer(rules),
		Identities: cloud.Of(os.Getenv, time.Now), Roots: roots, Slots: slots, Drain: o.drain, CacheDir: o.cacheDir, Clock: clock.Real{},
		Chance: mathrand.Float64, Draw: rand.Text, Log: log, Metrics: metrics,
	}, nil
}

func (o *runOptions) cluster() (*rest.Config, error) {
	var kube *rest.Config
	var err error
	if o.kubeconfig != "" {
		kube, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		kube, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	kube.QPS, kube.Burst = queriesPerSecond, burst
	return kube, nil
}

// kept are the addresses of the cluster itself, where no registry is.
func (o *runOptions) kept(ctx context.Context, kube *rest.Config, log *slog.Logger) []egress.Kept {
	var list []egress.Kept
	for class, addresses := range map[egress.Class][]string{"API server": {kube.Host}, "queue": o.natsURLs} {
		for _, address := range addresses {
			u, err := url.Parse(address)
			if err != nil || u.Hostname() == "" {
				continue
			}
			port, err := strconv.ParseUint(u.Port(), 10, 16)
			if err != nil {
				port = 0
			}
			found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
			if err != nil {
				log.Warn("an address of the cluster is not known, and not kept from registries", "class", class, "error", err)
			}
			for _, a := range found {
				list = append(list, egress.Kept{Class: class, Address: netip.AddrFrom16(a.As16()).Unmap(), Port: uint16(port)})
			}
		}
	}
	return list
}

// connect waits for the queue.
func (o *runOptions) connect(ctx context.Context, log *slog.Logger) (*queue.Queue, error) {
	q := queue.Options{URLs: o.natsURLs, Name: o.name, CredentialsFile: o.natsCredentials, Changed: func(connected bool, err error) {
		log.Info("the connection to the queue has changed", "connected", connected, "error", err)
	}}
	if o.natsCredentials == "" {
		password, err := os.ReadFile(o.natsPassword)
		if err != nil {
			return nil, fmt.Errorf("--nats-password-file: %w", err)
		}
		q.User, q.Password = o.natsUser, strings.TrimSpace(string(password))
	}
	if o.natsCA != "" {
		text, err := os.ReadFile(o.natsCA)
		if err != nil {
			return nil, fmt.Errorf("--nats-ca-file: %w", err)
		}
		q.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		if !q.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("--nats-ca-file: there is no certificate in it; write PEM")
		}
	}
	for {
		connected, err := queue.Connect(q)
		if err == nil {
			return connected, nil
		}
		log.Info("the queue does not answer yet", "error", err)
		if err := (clock.Real{}).Wait(ctx, queueRetry); err != nil {
			return nil, fmt.Errorf("wait for the queue: %w", err)
		}
	}
}

// engine starts the adapters.
func (o *runOptions) engine(ctx context.Context, read *config.Config, log *slog.Logger, metrics *worker.Metrics) (*engine.Engine, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var adapters []engine.Adapter
	for _, name := range read.Adapters {
		a := engine.Adapter{Name: name, Path: filepath.Join(o.adaptersDir, name)}
		if name == config.Mini {
			a.Path, a.Args = own, []string{"adapter-mini"}
		}
		adapters = append(adapters, a)
	}
	mode := sandbox.Mode(read.AdapterSandbox)
	confined, err := mode.Confines()
	if err != nil {
		return nil, err
	}
	metrics.Confined(confined)
	return engine.Open(ctx, engine.Options{
		CacheDir: o.cacheDir, CacheBytes: read.CacheSize.Value(), Adapters: adapters, Launcher: own, Sandbox: mode, Grown: metrics.Grown,
		Log: log, Now: time.Now,
	})
}

// probesOf answers whether the worker lives, and whether it can work.
func probesOf() (handler http.Handler, ready func(func() error)) {
	checks := make(chan func() error, 1)
	checks <- func() error { return errors.New("the worker starts") }
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		check := <-checks
		checks <- check
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux, func(check func() error) {
		<-checks
		checks <- check
	}
}

// serve answers probes and metrics.
func (o *runOptions) serve(ctx context.Context, registry *prometheus.Registry, probes http.Handler, log *slog.Logger) (stop func(), err error) {
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	var servers []*http.Server
	stop = func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		for _, s := range servers {
			if err := s.Shutdown(ending); err != nil {
				log.Debug("a server did not end in time", "error", err)
			}
		}
	}
	for _, s := range []struct {
		flag, address string
		handler       http.Handler
	}{{"--metrics-bind-address", o.metricsAddress, metrics}, {"--health-probe-bind-address", o.probeAddress, probes}} {
		if s.address == "" || s.address == "0" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			stop()
			return nil, fmt.Errorf("%s: %w", s.flag, err)
		}
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				log.Error("a server has ended", "flag", s.flag, "error", err)
			}
		}()
	}
	return stop, nil
}
