// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	quota "k8s.io/apiserver/pkg/quota/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/reports/internal/server"
)

const (
	allowedFor = 10 * time.Second
	deniedFor  = 5 * time.Second
)

// Cluster is who may do what in a cluster: what kube-apiserver says.
type Cluster struct {
	authentication *options.DelegatingAuthenticationOptions
	authorization  *options.DelegatingAuthorizationOptions
	admission      *options.AdmissionOptions
	audit          *options.AuditOptions
	core           *options.CoreAPIOptions
}

// NewCluster has the defaults.
func NewCluster() *Cluster {
	c := &Cluster{
		authentication: options.NewDelegatingAuthenticationOptions(), authorization: options.NewDelegatingAuthorizationOptions(),
		admission: options.NewAdmissionOptions(), audit: options.NewAuditOptions(), core: options.NewCoreAPIOptions(),
	}
	c.authorization.AlwaysAllowGroups = nil
	c.authorization.AlwaysAllowPaths = nil
	for _, path := range openPaths {
		c.authorization.AlwaysAllowPaths = append(c.authorization.AlwaysAllowPaths, path, path+"/*")
	}
	c.authorization.AllowCacheTTL, c.authorization.DenyCacheTTL = allowedFor, deniedFor
	resourcequota.Register(c.admission.Plugins)
	c.admission.RecommendedPluginOrder = []string{
		lifecycle.PluginName, mutatingpolicy.PluginName, mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName,
		resourcequota.PluginName,
	}
	return c
}

// BindFlags adds the flags of k8s.io/apiserver for delegated authentication and authorisation, admission and audit.
func (c *Cluster) BindFlags(flags *pflag.FlagSet) {
	c.authentication.AddFlags(flags)
	c.authorization.AddFlags(flags)
	c.admission.AddFlags(flags)
	c.audit.AddFlags(flags)
	c.core.AddFlags(flags)
}

// Validate returns the mistakes in the flags.
func (c *Cluster) Validate() error {
	var errs []error
	for _, found := range [][]error{
		c.authentication.Validate(), c.authorization.Validate(), c.admission.Validate(), c.audit.Validate(), c.core.Validate(),
	} {
		errs = append(errs, found...)
	}
	return errors.Join(errs...)
}

// ClientConfig is how kube-apiserver is reached: as the flags say, or as a pod of the cluster.
func (c *Cluster) ClientConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.core.CoreAPIKubeconfigPath)
	if err != nil {
		return nil, fmt.Errorf("reach kube-apiserver: %w", err)
	}
	return config, nil
}

// Apply sets it up.
func (c *Cluster) Apply(config *genericapiserver.RecommendedConfig) ([]server.Task, error) {
	if err := c.core.ApplyTo(config); err != nil {
		return nil, fmt.Errorf("reach kube-apiserver: %w", err)
	}
	if path := c.core.CoreAPIKubeconfigPath; path != "" {
		setDefault(&c.authentication.RemoteKubeConfigFile, path)
		setDefault(&c.authorization.RemoteKubeConfigFile, path)
	}
	trusted := &genericapiserver.SecureServingInfo{} // collects the CAs of clients, which must be kept current
	if err := c.authentication.ApplyTo(&config.Authentication, trusted, config.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("delegate authentication: %w", err)
	}
	config.Authentication.Authenticator = onlyOpen(config.Authentication.Authenticator)
	if err := c.authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, fmt.Errorf("delegate authorisation: %w", err)
	}
	if err := c.audit.ApplyTo(&config.Config); err != nil {
		return nil, fmt.Errorf("set up the audit: %w", err)
	}
	if err := c.applyAdmission(config); err != nil {
		return nil, fmt.Errorf("set up the admission: %w", err)
	}
	authorities, ok := trusted.ClientCA.(dynamiccertificates.ControllerRunner)
	if !ok {
		return nil, nil
	}
	return []server.Task{{Name: "client-ca", Run: func(ctx context.Context) error {
		if err := authorities.RunOnce(ctx); err != nil {
			return err
		}
		authorities.Run(ctx, 1)
		return nil
	}}}, nil
}

func (c *Cluster) applyAdmission(config *genericapiserver.RecommendedConfig) error {
	config.FeatureGate = utilfeature.DefaultFeatureGate
	client, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	return c.admission.ApplyTo(&config.Config, config.SharedInformerFactory, client, untyped, config.FeatureGate, config.EffectiveVersion, quotaInitializer{})
}

// quotaInitializer has quotas count objects of the groups that are served.
type quotaInitializer struct{}

// Initialize implements admission.PluginInitializer.
func (quotaInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(interface{ SetQuotaConfiguration(quota.Configuration) }); ok {
		wants.SetQuotaConfiguration(quotageneric.NewConfiguration(nil, nil))
	}
}

func setDefault(value *string, otherwise string) {
	if *value == "" {
		*value = otherwise
	}
}
