// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	registration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/apiservices"
	"github.com/scanyard/scanyard/reports/internal/certificate"
	"github.com/scanyard/scanyard/reports/internal/server"
)

const servicePort = 443

// serviceFlags say which Service kube-apiserver finds the server behind.
type serviceFlags struct {
	namespace, service string
}

func (f *serviceFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.namespace, "namespace", "", "namespace of the server")
	flags.StringVar(&f.service, "service", "", "Service that kube-apiserver finds the server behind")
}

// inClusterFlags say how kube-apiserver finds the server and what it trusts.
type inClusterFlags struct {
	serviceFlags

	tlsSecret    string
	takeOver     string
	injectCAFrom string
}

func (f *inClusterFlags) bind(flags *pflag.FlagSet) {
	f.serviceFlags.bind(flags)
	flags.StringVar(&f.tlsSecret, "tls-secret", "", "Secret of the namespace that the server keeps its authority and its certificate in")
	flags.StringVar(
		&f.takeOver, "take-over", string(apiservices.TakeNever),
		"which groups are taken: never, ifAbsent (nobody has them) or always (from CRDs as well)",
	)
	flags.StringVar(&f.injectCAFrom, "inject-ca-from", "", "`namespace/name` of the Certificate from which cert-manager tells kube-apiserver whom to trust")
}

func (f *inClusterFlags) validate() error {
	var errs []error
	takeOver, err := apiservices.ParseTakeOver(f.takeOver)
	if err != nil {
		errs = append(errs, fmt.Errorf("--take-over: %w", err))
	}
	if (f.tlsSecret != "" || takeOver == apiservices.TakeIfAbsent || takeOver == apiservices.TakeAlways) && (f.namespace == "" || f.service == "") {
		errs = append(errs, errors.New("--tls-secret and --take-over need --namespace and --service"))
	}
	if f.tlsSecret != "" && f.injectCAFrom != "" {
		errs = append(errs, errors.New("--tls-secret and --inject-ca-from exclude each other"))
	}
	return errors.Join(errs...)
}

// inCluster keeps what the server has in the cluster: its APIServices, and its certificate, which is nil if others make it.
type inCluster struct {
	certificate *certificate.Keeper
	apiServices *apiservices.Keeper
	events      record.EventBroadcaster
	clock       clock.PassiveClock
}

// connect prepares it for the server's Service. Nothing is written yet.
func (f *inClusterFlags) connect(config *rest.Config, groups server.Groups) (*inCluster, error) {
	options, err := f.options(config)
	if err != nil {
		return nil, err
	}
	options.Groups = groupsOf(groups)
	options.TakeOver = apiservices.TakeOver(f.takeOver)
	options.InjectCAFrom = f.injectCAFrom
	c := &inCluster{events: record.NewBroadcaster(), clock: options.Clock}
	options.Events = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: server.Name})
	if f.tlsSecret != "" {
		c.certificate = certificate.New(certificate.Options{
			Client: options.Client, Namespace: f.namespace, Secret: f.tlsSecret, Clock: options.Clock,
			Hosts: []string{f.service + "." + f.namespace + ".svc", f.service + "." + f.namespace},
		})
		options.CABundle = c.certificate.CABundle
	}
	c.apiServices = apiservices.New(options)
	if c.certificate != nil {
		c.certificate.AddListener(c.apiServices)
	}
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: options.Client.CoreV1().Events(f.namespace)})
	return c, nil
}

// options are those that are the same for the server and for whoever gives its groups back.
func (f *serviceFlags) options(config *rest.Config) (apiservices.Options, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return apiservices.Options{}, err
	}
	services, err := registration.NewForConfig(config)
	if err != nil {
		return apiservices.Options{}, err
	}
	return apiservices.Options{
		Client: client, Services: services.APIServices(), Clock: clock.RealClock{}, Namespace: f.namespace, Service: f.service, Port: servicePort,
	}, nil
}

// metrics tells how long the certificate is good for, and what became of the APIServices.
func (c *inCluster) metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	all := []prometheus.Collector{
		gauge("scanyard_reports_apiservices_lost", "APIServices that have named this server and do not any longer.", func() float64 {
			return float64(c.apiServices.Lost())
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "scanyard_reports_apiservices_retaken_total", Help: "How often an APIService was taken again after somebody had reset it.",
		}, func() float64 { return float64(c.apiServices.Retaken()) }),
	}
	if c.certificate == nil {
		return all
	}
	return append(all, gauge("scanyard_reports_certificate_expiry_seconds", "Seconds until the serving certificate ends.", func() float64 {
		return c.certificate.Expires().Sub(c.clock.Now()).Seconds()
	}))
}

// groupsOf names all groups that the server knows, served or not: those that are switched off are given up.
func groupsOf(groups server.Groups) []apiservices.Group {
	return []apiservices.Group{
		{Group: "wgpolicyk8s.io", Version: "v1alpha2", Served: groups.WGPolicy},
		{Group: "openreports.io", Version: "v1alpha1", Served: groups.OpenReports},
		{Group: "reports.scanyard.io", Version: "v1alpha1", Served: groups.Scanyard},
		{Group: "prext.demo", Version: "v1alpha1", Served: groups.Prext},
	}
}

// tasks are what runs while the server serves.
func (c *inCluster) tasks() []server.Task {
	var tasks []server.Task
	if c.certificate != nil {
		tasks = append(tasks, server.Task{Name: "certificate", Run: func(ctx context.Context) error {
			c.certificate.Run(ctx, 1)
			return nil
		}})
	}
	return append(tasks, server.Task{Name: "apiservices", Run: func(ctx context.Context) error {
		defer c.events.Shutdown()
		c.apiServices.Run(ctx)
		return nil
	}})
}
