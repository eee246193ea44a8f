// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/discovery/internal/scanconfig"
)

const (
	// DefaultExtractorImage finds the credentials of an image's registry in pull secrets.
	DefaultExtractorImage = "docker.io/scanyard/auto-discovery-pull-secret-extractor"

	defaultResync = time.Minute
	// minResync keeps a configuration from making the discovery its own load.
	minResync       = 5 * time.Second
	defaultHealth   = ":8081"
	defaultMetrics  = "127.0.0.1:8080"
	defaultLease    = "0e41a1f4.securecodebox.io"
	maxInstanceName = 40
)

// Compiled is a configuration that was checked, with its templates and selectors parsed.
type Compiled struct {
	*Config

	Namespaces   labels.Selector
	ServiceRules []*Rule
	ImageRules   []*Rule
	IngressRules []*Rule
	RouteRules   []*Rule
}

// Rule is a scanConfig, ready for use.
type Rule struct {
	*ScanConfig
	Template   *scanconfig.Template
	namespaces labels.Selector
	targets    labels.Selector
}

// Load reads a configuration file, which is called name in errors. The error is a
// *strictyaml.Error: it names the file, the line and the field of everything that is wrong.
func Load(name string, data []byte) (*Compiled, error) {
	c := &Config{}
	f, err := strictyaml.Decode(name, data, c)
	if err != nil {
		return nil, err
	}
	compiled, errs := Compile(c)
	if err := f.Check(errs); err != nil {
		return nil, err
	}
	return compiled, nil
}

// Compile fills in the defaults, validates the configuration and parses what is in it.
func Compile(c *Config) (*Compiled, field.ErrorList) {
	c.setDefaults()
	errs := c.validate()
	d := &Compiled{Config: c}
	var problems field.ErrorList
	if d.Namespaces, problems = selector(field.NewPath("resourceInclusion", "namespaceSelector"), c.ResourceInclusion.NamespaceSelector); len(problems) > 0 {
		errs = append(errs, problems...)
	}
	for _, s := range []struct {
		path    string
		configs []ScanConfig
		sample  any
		into    *[]*Rule
	}{
		{"serviceAutoDiscovery", c.ServiceAutoDiscovery.ScanConfigs, sampleServiceArgs(c), &d.ServiceRules},
		{"containerAutoDiscovery", c.ContainerAutoDiscovery.ScanConfigs, sampleContainerArgs(c), &d.ImageRules},
		{"ingressAutoDiscovery", c.IngressAutoDiscovery.ScanConfigs, sampleIngressArgs(c), &d.IngressRules},
		{"gatewayAutoDiscovery", c.GatewayAutoDiscovery.ScanConfigs, sampleGatewayArgs(c), &d.RouteRules},
	} {
		*s.into, problems = compileRules(field.NewPath(s.path, "scanConfigs"), s.configs, s.sample)
		errs = append(errs, problems...)
	}
	return d, errs
}

func compileRules(path *field.Path, configs []ScanConfig, sample any) ([]*Rule, field.ErrorList) {
	var all []*Rule
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range configs {
		c, at := &configs[i], path.Index(i)
		r := &Rule{ScanConfig: c}
		var problems field.ErrorList
		r.Template, problems = scanconfig.Compile(&c.ScanConfig, at, sample)
		errs = append(errs, problems...)
		r.namespaces, problems = selector(at.Child("namespaceSelector"), c.NamespaceSelector)
		errs = append(errs, problems...)
		r.targets, problems = selector(at.Child("targetSelector"), c.TargetSelector)
		errs = append(errs, problems...)
		if c.TargetNamespace != "" {
			for _, msg := range validation.IsDNS1123Label(c.TargetNamespace) {
				errs = append(errs, field.Invalid(at.Child("targetNamespace"), c.TargetNamespace, msg))
			}
		}
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		all = append(all, r)
	}
	return all, errs
}

func selector(path *field.Path, s *metav1.LabelSelector) (labels.Selector, field.ErrorList) {
	if s == nil {
		return labels.Everything(), nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(s), err.Error())}
	}
	return parsed, nil
}

func (c *Config) setDefaults() {
	c.ExistingScans = cmp.Or(c.ExistingScans, UpdateExisting)
	c.Removal.Policy = cmp.Or(c.Removal.Policy, DeleteUnwanted)
	for _, d := range c.intervals() {
		d.Duration = cmp.Or(d.Duration, defaultResync)
	}
	containers := &c.ContainerAutoDiscovery
	containers.ImagesWithoutDigest = cmp.Or(containers.ImagesWithoutDigest, SkipDigestless)
	secrets := &containers.ImagePullSecretConfig
	secrets.ExtractorImage = cmp.Or(secrets.ExtractorImage, DefaultExtractorImage)
	c.Health.HealthProbeBindAddress = cmp.Or(c.Health.HealthProbeBindAddress, defaultHealth)
	c.Metrics.BindAddress = cmp.Or(c.Metrics.BindAddress, defaultMetrics)
	c.LeaderElection.ResourceName = cmp.Or(c.LeaderElection.ResourceName, defaultLease)
	p := &c.ServiceAutoDiscovery.Ports
	if p.HTTP == nil {
		p.HTTP = []int32{80, 8080, 3000, 5000, 8000}
	}
	if p.HTTPS == nil {
		p.HTTPS = []int32{443, 8443}
	}
	if p.HTTPNames == nil {
		p.HTTPNames = []string{"http"}
	}
	if p.HTTPSNames == nil {
		p.HTTPSNames = []string{"https"}
	}
}

func (c *Config) intervals() map[string]*metav1.Duration {
	return map[string]*metav1.Duration{
		"serviceAutoDiscovery":   &c.ServiceAutoDiscovery.PassiveReconcileInterval,
		"containerAutoDiscovery": &c.ContainerAutoDiscovery.PassiveReconcileInterval,
		"ingressAutoDiscovery":   &c.IngressAutoDiscovery.PassiveReconcileInterval,
		"gatewayAutoDiscovery":   &c.GatewayAutoDiscovery.PassiveReconcileInterval,
	}
}

func (c *Config) validate() field.ErrorList {
	var errs field.ErrorList
	if c.APIVersion != "" && c.APIVersion != ConfigAPIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{ConfigAPIVersion}))
	}
	if c.Kind != "" && c.Kind != ConfigKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), c.Kind, []string{ConfigKind}))
	}
	errs = append(errs, Supported(field.NewPath("resourceInclusion", "mode"), c.ResourceInclusion.Mode, EnabledPerNamespace, EnabledPerResource, All)...)
	errs = append(errs, Supported(field.NewPath("existingScans"), c.ExistingScans, UpdateExisting, KeepExisting)...)
	errs = append(errs, Supported(field.NewPath("removal", "policy"), c.Removal.Policy, DeleteUnwanted, KeepUnwanted)...)
	errs = append(
		errs,
		Supported(
			field.NewPath("containerAutoDiscovery", "imagesWithoutDigest"), c.ContainerAutoDiscovery.ImagesWithoutDigest, SkipDigestless,
			ScanDigestlessByTag,
		)...)
	if lock := c.LeaderElection.ResourceLock; lock != "" && lock != "leases" {
		errs = append(errs, field.NotSupported(field.NewPath("leaderElection", "resourceLock"), lock, []string{"leases"}))
	}
	for name, d := range c.intervals() {
		if d.Duration < minResync {
			errs = append(errs, field.Invalid(field.NewPath(name, "passiveReconcileInterval"), d.Duration.String(), "must be at least "+minResync.String()))
		}
	}
	if c.Removal.Delay.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("removal", "delay"), c.Removal.Delay.Duration.String(), "must not be negative"))
	}
	for name, n := range map[string]int{
		"startsPerMinute": c.Limits.StartsPerMinute, "maxScheduledScans": c.Limits.MaxScheduledScans,
		"maxScheduledScansPerNamespace": c.Limits.MaxScheduledScansPerNamespace,
	} {
		if n < 0 {
			errs = append(errs, field.Invalid(field.NewPath("limits", name), n, "must not be negative; 0 means no bound"))
		}
	}
	return append(errs, c.validateNames()...)
}

func (c *Config) validateNames() field.ErrorList {
	var errs field.ErrorList
	if c.Instance != "" {
		for _, msg := range validation.IsDNS1123Label(c.Instance) {
			errs = append(errs, field.Invalid(field.NewPath("instance"), c.Instance, msg))
		}
		if len(c.Instance) > maxInstanceName {
			errs = append(errs, field.TooLong(field.NewPath("instance"), c.Instance, maxInstanceName))
		}
	}
	secrets, path := c.ContainerAutoDiscovery.ImagePullSecretConfig, field.NewPath("containerAutoDiscovery", "imagePullSecretConfig")
	if secrets.MapImagePullSecretsToEnvironmentVariables {
		for name, value := range map[string]string{
			"usernameEnvironmentVariableName": secrets.UsernameEnvironmentVariableName,
			"passwordEnvironmentVariableName": secrets.PasswordNameEnvironmentVariableName,
		} {
			if value == "" {
				errs = append(
					errs,
					field.Required(path.Child(name), "the variable that the scanner reads, such as TRIVY_USERNAME, since mapImagePullSecretsToEnvironmentVariables is true"),
				)
				continue
			}
			for _, msg := range validation.IsEnvVarName(value) {
				errs = append(errs, field.Invalid(path.Child(name), value, msg))
			}
		}
	}
	return errs
}

// Supported returns no error for one of the allowed values.
func Supported[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case slices.Contains(allowed, value):
		return nil
	case value == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("one of %q", allowed))}
	default:
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
}

// FieldOwner is the field manager of what the discovery writes.
const FieldOwner = "scanyard-autodiscovery"

// FieldOwner is the field manager of what this discovery writes.
func (c *Config) FieldOwner() string {
	if c.Instance == "" {
		return FieldOwner
	}
	return FieldOwner + "-" + c.Instance
}

// Resync is how often a namespace is looked at even if nothing has happened.
func (c *Config) Resync() time.Duration {
	shortest := time.Duration(0)
	for name, d := range c.intervals() {
		if c.enabled()[name] && (shortest == 0 || d.Duration < shortest) {
			shortest = d.Duration
		}
	}
	return cmp.Or(shortest, defaultResync)
}

func (c *Config) enabled() map[string]bool {
	return map[string]bool{
		"serviceAutoDiscovery":   c.ServiceAutoDiscovery.Enabled,
		"containerAutoDiscovery": c.ContainerAutoDiscovery.Enabled,
		"ingressAutoDiscovery":   c.IngressAutoDiscovery.Enabled,
		"gatewayAutoDiscovery":   c.GatewayAutoDiscovery.Enabled,
	}
}

// TargetNamespaces are those in which ScheduledScans for targets of other namespaces are.
func (c *Compiled) TargetNamespaces() []string {
	all := sets.New[string]()
	for _, r := range c.Rules() {
		if r.TargetNamespace != "" {
			all.Insert(r.TargetNamespace)
		}
	}
	return sets.List(all)
}

// Rules are the rules of all kinds of targets.
func (c *Compiled) Rules() []*Rule {
	var all []*Rule
	for _, s := range [][]*Rule{c.ServiceRules, c.ImageRules, c.IngressRules, c.RouteRules} {
		all = append(all, s...)
	}
	return all
}

// Selects says whether a scanConfig wants an object, by the labels of it and its namespace.
func (r *Rule) Selects(namespace, o metav1.Object) bool {
	return r.namespaces.Matches(labels.Set(namespace.GetLabels())) && r.targets.Matches(labels.Set(o.GetLabels()))
}

// NeedsServiceAccounts says whether pull secrets of ServiceAccounts count.
func (c *Config) NeedsServiceAccounts() bool {
	s := &c.ContainerAutoDiscovery.ImagePullSecretConfig
	return c.ContainerAutoDiscovery.Enabled && s.MapImagePullSecretsToEnvironmentVariables && s.ServiceAccountSecrets
}
