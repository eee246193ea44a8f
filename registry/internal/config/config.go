// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/filter"
)

// The file's version and kind.
const (
	APIVersion = "registry.scanyard.io/v1alpha1"
	Kind       = "RegistryScanningConfig"
)

// Mini is the adapter that is built in.
const Mini = "mini"

// WhenStale says what becomes of matches where a database is too old.
type WhenStale string

// What becomes of matches where a database is too old.
const (
	// Warn goes on, and every report says that its data is stale.
	Warn WhenStale = "Warn"
	// Stop matches nothing.
	Stop WhenStale = "Stop"
)

// Config is what the installation allows.
type Config struct {
	metav1.TypeMeta `json:",inline"`

	// Namespaces are those that are looked at; none: all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Adapters are the names of those that workers start. DefaultAdapter is that of Registries that name none.
	Adapters       []string `json:"adapters,omitempty"`
	DefaultAdapter string   `json:"defaultAdapter,omitempty"`
	// AdapterSandbox is Require, Prefer or Off.
	AdapterSandbox string    `json:"adapterSandbox,omitempty"`
	Database       Databases `json:"database,omitzero"`
	Egress         Egress    `json:"egress,omitzero"`
	Quotas         Quotas    `json:"quotas,omitzero"`
	Hosts          Hosts     `json:"hosts,omitzero"`
	// CloudIdentityNamespaces may use auth.provider.
	CloudIdentityNamespaces []string `json:"cloudIdentityNamespaces,omitempty"`
	// Dedupe says with whom content is shared, DedupeHosts are hosts that the cluster's admin vouches for.
	Dedupe      reportsv1.Dedupe `json:"dedupe,omitempty"`
	DedupeHosts []string         `json:"dedupeHosts,omitempty"`
	// CABundle are PEM certificates that count as the system's.
	CABundle string `json:"caBundle,omitempty"`
	// CacheSize is what a worker keeps of layers, SBOMs and databases.
	CacheSize *resource.Quantity `json:"cacheSize,omitempty"`
}

// Databases say where vulnerability data comes from.
type Databases struct {
	Trivy Source `json:"trivy,omitzero"`
	Grype Source `json:"grype,omitzero"`
	Mini  Source `json:"mini,omitzero"`
	// CheckPeriod is the time between two looks for newer data, MaxAge when data is stale.
	CheckPeriod string    `json:"checkPeriod,omitempty"`
	MaxAge      string    `json:"maxAge,omitempty"`
	WhenStale   WhenStale `json:"whenStale,omitempty"`
}

// Source is where the database of an adapter is.
type Source struct {
	// Repository is host, name and tag or digest, as registry.example.com/trivy-db:2.
	Repository     string `json:"repository,omitempty"`
	JavaRepository string `json:"javaRepository,omitempty"`
	// File of the worker's file system, instead of a repository.
	File string `json:"file,omitempty"`
	// CABundle are PEM certificates trusted beside the system's. Insecure speaks plain HTTP.
	CABundle string `json:"caBundle,omitempty"`
	Insecure bool   `json:"insecure,omitempty"`
	// SecretName is a Secret of the release's namespace.
	SecretName string `json:"secretName,omitempty"`
}

// Egress says where workers may connect to.
type Egress struct {
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	AllowCIDRs   []string `json:"allowCIDRs,omitempty"`
	DenyCIDRs    []string `json:"denyCIDRs,omitempty"`
	AllowPrivate *bool    `json:"allowPrivate,omitempty"`
}

// Quotas bound a namespace.
type Quotas struct {
	Registries   int                `json:"registries,omitempty"`
	Repositories int64              `json:"repositories,omitempty"`
	Images       int64              `json:"images,omitempty"`
	Concurrent   int                `json:"concurrent,omitempty"`
	BytesPerDay  *resource.Quantity `json:"bytesPerDay,omitempty"`
}

// Hosts bound what a registry host is asked, by all namespaces together.
type Hosts struct {
	Concurrent        int     `json:"concurrent,omitempty"`
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
}

// Read reads a file. No name gives the defaults.
func Read(name string) (*Config, error) {
	if name == "" {
		return parse(nil)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("read --config %s: %w", name, err)
	}
	return c, nil
}

func parse(data []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if len(data) > 0 && (c.APIVersion != APIVersion || c.Kind != Kind) {
		return nil, fmt.Errorf("must begin with apiVersion: %s and kind: %s", APIVersion, Kind)
	}
	c.fill()
	return c, c.check()
}

// fill has the defaults of the chart take the place of what is not there.
func (c *Config) fill() {
	if len(c.Adapters) == 0 {
		c.Adapters = []string{Mini}
	}
	orElse(&c.DefaultAdapter, c.Adapters[0])
	orElse(&c.AdapterSandbox, "Prefer")
	orElse(&c.Dedupe, reportsv1.DedupeHost)
	orElse(&c.Database.CheckPeriod, "1h")
	orElse(&c.Database.MaxAge, "72h")
	orElse(&c.Database.WhenStale, Warn)
	orElse(&c.Quotas.Registries, 20)
	orElse(&c.Quotas.Repositories, 5000)
	orElse(&c.Quotas.Images, 20000)
	orElse(&c.Quotas.Concurrent, 4)
	orElse(&c.Hosts.Concurrent, 8)
	orElse(&c.Hosts.RequestsPerSecond, 50)
	if c.Quotas.BytesPerDay == nil {
		c.Quotas.BytesPerDay = new(resource.MustParse("500Gi"))
	}
	if c.CacheSize == nil {
		c.CacheSize = new(resource.MustParse("20Gi"))
	}
}

func orElse[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

func (c *Config) check() error {
	var wrong []error
	refuse := func(format string, arguments ...any) { wrong = append(wrong, fmt.Errorf(format, arguments...)) }
	if !slices.Contains(c.Adapters, c.DefaultAdapter) {
		refuse("defaultAdapter: %q is not one of adapters", c.DefaultAdapter)
	}
	if !slices.Contains([]string{"Require", "Prefer", "Off"}, c.AdapterSandbox) {
		refuse("adapterSandbox: %q is not Require, Prefer or Off", c.AdapterSandbox)
	}
	if !slices.Contains([]reportsv1.Dedupe{reportsv1.DedupeHost, reportsv1.DedupeNamespace, reportsv1.DedupeOff}, c.Dedupe) {
		refuse("dedupe: %q is not Host, Namespace or Off", c.Dedupe)
	}
	if c.Database.WhenStale != Warn && c.Database.WhenStale != Stop {
		refuse("database.whenStale: %q is not Warn or Stop", c.Database.WhenStale)
	}
	for key, value := range map[string]string{"database.checkPeriod": c.Database.CheckPeriod, "database.maxAge": c.Database.MaxAge} {
		if _, err := filter.ParseDuration(value); err != nil {
			refuse("%s: %w", key, err)
		}
	}
	for key, bundle := range map[string]string{
		"caBundle": c.CABundle, "database.trivy.caBundle": c.Database.Trivy.CABundle, "database.grype.caBundle": c.Database.Grype.CABundle,
		"database.mini.caBundle": c.Database.Mini.CABundle,
	} {
		if bundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
			refuse("%s: there is no certificate in it; write PEM", key)
		}
	}
	for key, value := range map[string]float64{
		"quotas.registries": float64(c.Quotas.Registries), "quotas.repositories": float64(c.Quotas.Repositories), "quotas.images": float64(c.Quotas.Images),
		"quotas.concurrent": float64(c.Quotas.Concurrent), "quotas.bytesPerDay": c.Quotas.BytesPerDay.AsApproximateFloat64(),
		"hosts.concurrent": float64(c.Hosts.Concurrent), "hosts.requestsPerSecond": c.Hosts.RequestsPerSecond, "cacheSize": c.CacheSize.AsApproximateFloat64(),
	} {
		if value <= 0 {
			refuse("%s: must be more than zero", key)
		}
	}
	if _, err := c.Rules(); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// Rules are those of the dialer.
func (c *Config) Rules() (egress.Rules, error) {
	r := egress.Rules{AllowedHosts: [][]string{c.Egress.AllowedHosts}, RefusePrivate: c.Egress.AllowPrivate != nil && !*c.Egress.AllowPrivate}
	for _, list := range []struct {
		key  string
		text []string
		into *[]netip.Prefix
	}{{"egress.allowCIDRs", c.Egress.AllowCIDRs, &r.AllowCIDRs}, {"egress.denyCIDRs", c.Egress.DenyCIDRs, &r.DenyCIDRs}} {
		for _, text := range list.text {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return egress.Rules{}, fmt.Errorf("%s: %q is not a network such as 10.0.0.0/8", list.key, text)
			}
			*list.into = append(*list.into, prefix)
		}
	}
	if err := r.Validate(); err != nil {
		return egress.Rules{}, fmt.Errorf("egress.%w", err)
	}
	return r, nil
}

// Adapter is that of a Registry that names this one, or none.
func (c *Config) Adapter(named string) string {
	if named != "" {
		return named
	}
	return c.DefaultAdapter
}

// Source is where the database of an adapter is. Adapters of others have none here.
func (c *Config) Source(adapter string) Source {
	switch adapter {
	case "trivy":
		s := c.Database.Trivy
		if s.File == "" {
			orElse(&s.Repository, "mirror.gcr.io/aquasec/trivy-db:2")
		}
		return s
	case "grype":
		return c.Database.Grype
	case Mini:
		return c.Database.Mini
	}
	return Source{}
}

// CheckPeriod is the time between two looks for newer data.
func (c *Config) CheckPeriod() time.Duration { return duration(c.Database.CheckPeriod) }

// MaxAge is when data is stale.
func (c *Config) MaxAge() time.Duration { return duration(c.Database.MaxAge) }

// duration reads what check has read before.
func duration(text string) time.Duration {
	d, err := filter.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}
