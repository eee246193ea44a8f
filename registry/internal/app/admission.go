// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/registry"
)

// admissionPath is where the API server asks.
const admissionPath = "/validate"

// addAdmission answers the API server on every replica, and writes the authority of the certificate into the configuration.
func addAdmission(ctx context.Context, manager ctrl.Manager, direct client.Client, o *Options) error {
	if o.WebhookService == "" {
		return nil
	}
	host, portText, err := net.SplitHostPort(o.WebhookAddress)
	if err != nil {
		return fmt.Errorf("--webhook-bind-address: %w", err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return fmt.Errorf("--webhook-bind-address: %w", err)
	}
	name := o.WebhookService + "." + o.Namespace + ".svc"
	s, err := ensureSecret(ctx, direct, client.ObjectKey{Namespace: o.Namespace, Name: o.WebhookService + "-tls"}, []string{name}, nil, clock.RealClock{}.Now())
	if err != nil {
		return err
	}
	bounds, err := boundsOf(o)
	if err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.certificate, nil }
	}}})
	server.Register(admissionPath, &webhook.Admission{Handler: &validator{admission.NewDecoder(manager.GetScheme()), bounds}})
	if err := manager.Add(server); err != nil {
		return err
	}
	if err := trust(ctx, direct, o.WebhookConfiguration, s.authority); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Write the authority of the webhook") // it fails open, and the controller checks again
	}
	return nil
}

// trust has the API server trust our certificate.
func trust(ctx context.Context, c client.Client, name string, authority []byte) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
		return fmt.Errorf("get ValidatingWebhookConfiguration: %w", err)
	}
	before, same := configuration.DeepCopy(), true
	for i := range configuration.Webhooks {
		same = same && bytes.Equal(configuration.Webhooks[i].ClientConfig.CABundle, authority)
		configuration.Webhooks[i].ClientConfig.CABundle = authority
	}
	if same {
		return nil
	}
	if err := c.Patch(ctx, configuration, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch ValidatingWebhookConfiguration: %w", err)
	}
	return nil
}

// validator says whether a Registry or a job can ever work.
type validator struct {
	decoder admission.Decoder
	bounds  registry.Bounds
}

// Handle answers the API server.
func (v *validator) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	var err error
	switch request.Kind.Kind {
	case "Registry":
		r := &registryv1alpha1.Registry{}
		if err := v.decoder.Decode(request, r); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if r.DeletionTimestamp.IsZero() {
			r.Namespace = request.Namespace
			err = registry.Check(r, v.bounds)
		}
	case "DiscoveryJob":
		j := &registryv1alpha1.DiscoveryJob{}
		if err := v.decoder.Decode(request, j); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		err = checkOverride(j)
	}
	if err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
}

func checkOverride(j *registryv1alpha1.DiscoveryJob) error {
	if j.Spec.Override == nil {
		return nil
	}
	if _, failure := filter.Compile(*j.Spec.Override); failure != nil {
		return errors.New("spec.override." + failure.Field + ": " + failure.Message)
	}
	return nil
}
