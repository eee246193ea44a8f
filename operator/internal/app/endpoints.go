// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/decisions"
	"github.com/scanyard/scanyard/operator/internal/endpoint"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/results"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/operator/internal/uploads"
)

// EndpointOptions say where pods ask the operator, and for what.
type EndpointOptions struct {
	Address string
	// Secret keeps the certificate.
	Secret string
	// UploadURL is where scan pods get fresh upload URLs, ResultsURL where those who forward results find them; empty
	// switches the one or the other off.
	UploadURL, ResultsURL string
}

func (o *EndpointOptions) bindFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.Address, "upload-endpoint-bind-address", ":8443", "`address` that gives scan pods fresh upload URLs, and answers for results, by HTTPS")
	fs.StringVar(
		&o.UploadURL, "upload-endpoint-url", "",
		"`URL` under which scan pods reach that address, such as https://scanyard.scanyard-system.svc:8443; empty switches the endpoint off",
	)
	fs.StringVar(&o.Secret, "upload-endpoint-secret", "scanyard-upload-tls", "`name` of the Secret that keeps its certificate; made where it does not exist")
	fs.StringVar(
		&o.ResultsURL, "results-endpoint-url", "",
		"`URL` under which the forwarder reaches --upload-endpoint-bind-address, to be told where results lie; empty switches that off",
	)
}

func (o *EndpointOptions) validate(namespace string) (errs field.ErrorList) {
	if o.UploadURL == "" && o.ResultsURL == "" {
		return nil
	}
	for flagName, text := range map[string]string{"--upload-endpoint-url": o.UploadURL, "--results-endpoint-url": o.ResultsURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
			errs = append(errs, field.Invalid(field.NewPath(flagName), text, "must be an https URL, such as https://scanyard.scanyard-system.svc:8443"))
		}
	}
	if namespace == "" {
		errs = append(errs, field.Required(field.NewPath("--namespace"), "the namespace of the Secret --upload-endpoint-secret (or set POD_NAMESPACE)"))
	}
	for _, msg := range validation.IsDNS1123Subdomain(o.Secret) {
		errs = append(errs, field.Invalid(field.NewPath("--upload-endpoint-secret"), o.Secret, msg))
	}
	return errs
}

// certificate says which one the server needs: each URL names a host that it is called by.
func (o *EndpointOptions) certificate(namespace string) (certificate.Request, error) {
	r := certificate.Request{Secret: client.ObjectKey{Namespace: namespace, Name: o.Secret}, Purpose: "endpoint for fresh upload URLs"}
	for _, text := range []string{o.UploadURL, o.ResultsURL} {
		u, err := url.Parse(text)
		if err != nil {
			return r, err
		}
		switch {
		case u.Hostname() == "" || u.Hostname() == r.Host:
		case r.Host == "":
			r.Host = u.Hostname()
		default:
			r.Also = append(r.Also, u.Hostname())
		}
	}
	return r, nil
}

// addEndpoints adds the server for requests of pods, with the enabled endpoints, and passes its URL to the Jobs. Compared reports
// whether the findings of a Scan are needed for coming runs.
func addEndpoints(
	ctx context.Context, mgr ctrl.Manager, config *rest.Config, s *store.Store,
	compared func(context.Context, *executionv1.Scan) (bool, error), o *Options, told *decisions.Log,
) error {
	e := &o.Endpoint
	if e.UploadURL == "" && e.ResultsURL == "" {
		return nil
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	request, err := e.certificate(o.Namespace)
	if err != nil {
		return err
	}
	cert, err := certificate.Ensure(ctx, direct, request, clock.RealClock{}.Now())
	if err != nil {
		return err
	}
	metrics.Registry.MustRegister(expiry("endpoints", cert))
	handlers := map[string]http.Handler{}
	if e.UploadURL != "" {
		u, err := url.Parse(e.UploadURL)
		if err != nil {
			return fmt.Errorf("--upload-endpoint-url: %w", err)
		}
		u.Path = uploads.Path
		o.Jobs.UploadEndpoint = jobs.UploadEndpoint{URL: u.String(), CA: cert.CA}
		handlers[uploads.Path] = uploads.NewHandler(direct, mgr.GetAPIReader(), s)
	}
	if e.ResultsURL != "" {
		if err := results.Publish(ctx, direct, o.Namespace, cert.CA); err != nil {
			return err
		}
		maps.Copy(handlers, results.NewHandler(results.Options{
			Review: direct, Live: mgr.GetAPIReader(), Storage: s, Namespaces: o.WatchNamespaces,
			Release: results.Releasing{
				Client: direct, Compared: compared, Released: told.ResultsReleased, Clock: clock.RealClock{},
				// Not from the cache: who gives results up knows what holds now.
				Effective: tenancy.NewSource(mgr.GetAPIReader(), o.defaults(), o.WatchNamespaces).Effective,
			},
		}).Handlers())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.Address)
	if err != nil {
		return fmt.Errorf("--upload-endpoint-bind-address: %w", err)
	}
	return mgr.Add(endpoint.NewServer(listener, cert.TLS, handlers))
}
