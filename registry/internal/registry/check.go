// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/cloud"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/schedule"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

// Bounds are what the installation allows.
type Bounds struct {
	Egress egress.Rules
	// CloudIdentityNamespaces may use auth.provider.
	CloudIdentityNamespaces []string
	// Adapters are the names of those that workers have.
	Adapters []string
	// Registries of a namespace.
	Registries int
	// Denied: settings let nothing be done for Registries of the namespace.
	Denied bool
	// Zones finds time zones; the name "" is that of the controller.
	Zones func(name string) (*time.Location, error)
}

// within are the bounds of a namespace.
func (b Bounds) within(l tenancy.Limits) Bounds {
	b.Denied, b.Registries = l.Denied, l.Registries
	b.Egress.AllowedHosts = slices.Concat(b.Egress.AllowedHosts, l.AllowedHosts)
	return b
}

// withoutCatalog are types of registries that tell no names.
var withoutCatalog = []registryv1alpha1.Type{registryv1alpha1.TypeGHCR, "GHCR"}

// problem is why a Registry cannot be worked for.
type problem struct{ reason, message string }

func invalid(field, message string) *problem {
	return &problem{registryv1alpha1.ReasonInvalid, field + ": " + message}
}

// check looks at a spec alone; nil: nothing is wrong.
func check(r *registryv1alpha1.Registry, b Bounds) *problem {
	spec := r.Spec
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" {
		return invalid("spec.url", fmt.Sprintf("%q is not a URL; write https://host or https://host:port", spec.URL))
	}
	if u.Scheme != "https" && spec.Insecure != registryv1alpha1.PlainHTTP {
		return invalid("spec.url", "an url with http:// needs insecure: PlainHTTP")
	}
	if _, failure := filter.Compile(spec.Filter); failure != nil {
		return invalid("spec."+failure.Field, failure.Message)
	}
	if p := checkCatalog(spec, u.Hostname()); p != nil {
		return p
	}
	if spec.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(spec.CABundle)) {
		return invalid("spec.caBundle", "there is no certificate in it; write PEM")
	}
	if p := checkTimes(r, b); p != nil {
		return p
	}
	if p := checkIdentity(r, b, u.Host); p != nil {
		return p
	}
	if b.Denied {
		return &problem{registryv1alpha1.ReasonHostNotAllowed, "settings let nothing be done for Registries here (spec.registry.denied); ask the cluster admin"}
	}
	if err := b.Egress.Host(u); err != nil {
		return &problem{registryv1alpha1.ReasonHostNotAllowed, err.Error()}
	}
	if spec.Adapter != "" && !slices.Contains(b.Adapters, spec.Adapter) {
		known := strings.Join(b.Adapters, ", ")
		return &problem{registryv1alpha1.ReasonAdapterUnknown, fmt.Sprintf("no worker has the adapter %q; there are %s", spec.Adapter, known)}
	}
	return nil
}

// checkIdentity: the identity of workers goes to registries of its cloud alone, and over no connection that somebody else could read.
func checkIdentity(r *registryv1alpha1.Registry, b Bounds, host string) *problem {
	const field = "spec.auth.provider"
	spec := r.Spec
	switch {
	case spec.Auth == nil || spec.Auth.Provider == "":
		return nil
	case !slices.Contains(b.CloudIdentityNamespaces, r.Namespace):
		return invalid(field, "the installation does not allow this namespace the identity of its workers (cloudIdentityNamespaces); use secretName")
	case !cloud.Serves(spec.Auth.Provider, host):
		return invalid(field, fmt.Sprintf("%s is not a registry of %s; use secretName", host, spec.Auth.Provider))
	case spec.Insecure != "" || spec.CABundle != "":
		return invalid(field, "the identity of workers goes with the system's certificates; remove insecure and caBundle")
	}
	return nil
}

func checkTimes(r *registryv1alpha1.Registry, b Bounds) *problem {
	if kept := r.Spec.Retention; kept != nil && kept.Gone != "" {
		if d, err := filter.ParseDuration(string(kept.Gone)); err != nil || d < time.Minute {
			return invalid("spec.retention.gone", "must be at least 1m")
		}
	}
	for _, kind := range []schedule.Kind{schedule.Discovery, schedule.Scan} {
		if _, p := schedule.Read(r, kind, b.Zones); p != nil {
			return invalid(p.Field, p.Message)
		}
	}
	return nil
}

// checkCatalog wants names where the registry tells none.
func checkCatalog(spec registryv1alpha1.RegistrySpec, host string) *problem {
	hub := host == "docker.io" || strings.HasSuffix(host, ".docker.io") || host == "public.ecr.aws"
	never := spec.Catalog == registryv1alpha1.CatalogNever
	if !never && (spec.Catalog == registryv1alpha1.CatalogAlways || !hub && !slices.Contains(withoutCatalog, spec.Type)) {
		return nil
	}
	why := "this registry tells no names"
	if never {
		why = "catalog is Never"
	}
	if len(spec.Repositories) == 0 {
		return invalid("spec.repositories", why+", so the repositories must be named")
	}
	for i, entry := range spec.Repositories {
		name, _, _ := strings.Cut(entry, "@")
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
			name = name[:colon]
		}
		if strings.ContainsAny(name, "*?") {
			return invalid(fmt.Sprintf("spec.repositories[%d]", i), why+", so the name cannot hold a pattern: "+entry)
		}
	}
	return nil
}

// Check says why a spec can never work, as the webhook has it; what an installation may change later is for the controller alone.
func Check(r *registryv1alpha1.Registry, b Bounds) error {
	p := check(r, b)
	if p == nil || p.reason != registryv1alpha1.ReasonInvalid {
		return nil
	}
	return errors.New(p.message)
}
