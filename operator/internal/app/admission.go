// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/conversion"
	"github.com/scanyard/scanyard/operator/internal/decisions"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/webhook"
)

// WebhookOptions say where the API server asks before it stores an object.
type WebhookOptions struct {
	Address string
	// Service is the name of the Service in the operator's namespace; empty switches admission off.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration and of the MutatingWebhookConfiguration.
	Configuration string
}

func (o *WebhookOptions) bindFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.Address, "webhook-bind-address", ":9443", "`address` where the API server asks whether an object is valid, by HTTPS")
	fs.StringVar(&o.Service, "webhook-service", "", "`name` of the Service in front of it, in the namespace of the operator; empty switches it off")
	fs.StringVar(
		&o.Configuration, "webhook-configuration", "",
		"`name` of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration; the operator writes the authority of its certificate into them",
	)
}

func (o *WebhookOptions) validate(namespace string) (errs field.ErrorList) {
	if o.Service == "" {
		return nil
	}
	for _, msg := range validation.IsDNS1035Label(o.Service) {
		errs = append(errs, field.Invalid(field.NewPath("--webhook-service"), o.Service, msg))
	}
	for _, msg := range validation.IsDNS1123Subdomain(o.Configuration) {
		errs = append(errs, field.Invalid(field.NewPath("--webhook-configuration"), o.Configuration, msg))
	}
	if _, _, err := o.hostPort(); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("--webhook-bind-address"), o.Address, "must be an address and a port, such as :9443"))
	}
	if namespace == "" {
		errs = append(errs, field.Required(field.NewPath("--namespace"), "the namespace of the Service --webhook-service (or set POD_NAMESPACE)"))
	}
	return errs
}

func (o *WebhookOptions) hostPort() (string, int, error) {
	host, text, err := net.SplitHostPort(o.Address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.Atoi(text)
	return host, port, err
}

// addAdmission serves the API server's webhook requests on every replica, unless it is switched off. It returns what knows
// the stamps that it makes, nil where it is switched off.
func addAdmission(ctx context.Context, mgr ctrl.Manager, config *rest.Config, o *Options, told *decisions.Log) (*stamp.Sealer, error) {
	w := &o.Webhook
	if w.Service == "" {
		return nil, nil
	}
	host, port, err := w.hostPort()
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	cert, err := certificate.Ensure(ctx, direct, certificate.Request{
		Secret: client.ObjectKey{Namespace: o.Namespace, Name: w.Service + "-tls"},
		Host:   w.Service + "." + o.Namespace + ".svc", Also: []string{w.conversionService() + "." + o.Namespace + ".svc"},
		Purpose: "webhooks for the API server",
	}, clock.RealClock{}.Now())
	if err != nil {
		return nil, err
	}
	metrics.Registry.MustRegister(expiry("webhooks", cert))
	secret, err := x509.MarshalPKCS8PrivateKey(cert.TLS.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("make the key of stamps: %w", err)
	}
	sealer := stamp.NewSealer(secret)
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert.TLS, nil }
	}}})
	checks := webhook.Checks(mgr.GetClient(), clock.RealClock{}, sealer)
	server.Register(webhook.Path, webhook.NewHandler(checks, func(req *admission.Request, answer *metav1.Status) {
		told.AdmissionRefused(w.Configuration, req, answer)
	}))
	server.Register(webhook.StampPath, webhook.NewStamper(sealer, clock.RealClock{}))
	convert, err := conversion.NewHandler()
	if err != nil {
		return nil, err
	}
	server.Register(conversion.Path, convert)
	if err := errors.Join(mgr.Add(server), addConversion(ctx, mgr, config, o, []byte(cert.CA))); err != nil {
		return nil, err
	}
	return sealer, (&webhook.Authority{Client: mgr.GetClient(), Name: w.Configuration, CA: []byte(cert.CA)}).SetupWithManager(mgr)
}

// conversionService is the name of the Service in front of the conversion. It is one of its own, since it has the
// replicas that are not ready yet as well: conversion needs no cache.
func (o *WebhookOptions) conversionService() string { return o.Service + "-conversion" }

// addConversion tells the API server where to convert settings to their other version, and has all of them stored in the
// newest one.
func addConversion(ctx context.Context, mgr ctrl.Manager, config *rest.Config, o *Options, ca []byte) error {
	live, err := client.NewWithWatch(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	path, port := conversion.Path, int32(443)
	for _, name := range conversion.CRDs() {
		keeper := &conversion.Keeper{Client: live, Name: name, Server: apiextensionsv1.WebhookClientConfig{
			Service:  &apiextensionsv1.ServiceReference{Namespace: o.Namespace, Name: o.Webhook.conversionService(), Path: &path, Port: &port},
			CABundle: ca,
		}}
		if err := keeper.Write(ctx); err != nil {
			// It tries again; the stored version is there without it.
			ctrl.LoggerFrom(ctx).Error(err, "Configure the conversion of settings", "crd", name)
		}
		if err := mgr.Add(keeper); err != nil {
			return err
		}
	}
	return mgr.Add(conversion.NewMigration(live, mgr.GetEventRecorder("scanyard"), metrics.Registry))
}
