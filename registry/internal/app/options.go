// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanyard/scanyard/registry/internal/config"
)

// Options are what the program is told.
type Options struct {
	ConfigFile, Namespace, Namespaces, LogLevel string
	Metrics, Health                             string
	LeaderElect                                 bool
	// NATSAddress is where the embedded queue listens, NATSService the name of the Service in front of it, NATSSecret that of its Secret.
	NATSAddress, NATSService, NATSSecret string
	// NATSURLs are those of an external queue; none: the embedded one. The files are its credentials and its authority.
	NATSURLs, NATSCredentials, NATSAuthority string
	NATSReplicas                             int
	WebhookAddress, WebhookService           string
	WebhookConfiguration                     string

	config *config.Config
}

// Bind binds the flags. environment reads a variable.
func (o *Options) Bind(fs *flag.FlagSet, environment func(string) string) {
	fs.StringVar(&o.ConfigFile, "config", "", "`file` of kind RegistryScanningConfig: what the installation allows; none has the defaults")
	fs.StringVar(&o.Namespace, "namespace", environment("POD_NAMESPACE"), "`namespace` of the controller, with its Lease and its Secrets; as POD_NAMESPACE says")
	fs.StringVar(&o.Namespaces, "namespaces", "", "comma-separated `namespaces` with Registries, instead of those of the file; none of both: all")
	fs.StringVar(&o.LogLevel, "log-level", "info", "`level` of the log: info, debug or error")
	fs.StringVar(&o.Metrics, "metrics-bind-address", ":8080", "`address` of /metrics; 0 switches it off")
	fs.StringVar(&o.Health, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "let one of several replicas work; without it there must be one only")
	fs.StringVar(&o.NATSAddress, "nats-bind-address", ":4222", "`address` at which the leader's queue listens, with TLS")
	fs.StringVar(&o.NATSService, "nats-service", "registry-nats", "`name` of the Service in front of it: its certificate is for that")
	fs.StringVar(&o.NATSSecret, "nats-secret", "registry-nats", "`name` of the Secret with its certificate and passwords; made where there is none")
	fs.StringVar(&o.NATSURLs, "nats-url", "", "comma-separated `URLs` of an external NATS with JetStream; none: the embedded one")
	fs.StringVar(&o.NATSCredentials, "nats-credentials-file", "", "credentials `file` of the external NATS")
	fs.StringVar(&o.NATSAuthority, "nats-ca-file", "", "`file` with the authority of the external NATS, PEM")
	fs.IntVar(&o.NATSReplicas, "nats-replicas", 3, "`nodes` on which the external NATS keeps streams") // the default of the chart
	fs.StringVar(&o.WebhookAddress, "webhook-bind-address", ":9443", "`address` where the API server asks whether a Registry or a job is valid")
	fs.StringVar(&o.WebhookService, "webhook-service", "", "`name` of the Service in front of it; none switches admission off")
	fs.StringVar(&o.WebhookConfiguration, "webhook-configuration", "", "`name` of the ValidatingWebhookConfiguration that gets the certificate's authority")
}

// Validate reads the file, and names the flag that is wrong.
func (o *Options) Validate() error {
	if o.Namespace == "" {
		return fmt.Errorf("--namespace: name the namespace of the controller, or set POD_NAMESPACE")
	}
	for _, message := range validation.IsDNS1123Label(o.Namespace) {
		return fmt.Errorf("--namespace: %s", message)
	}
	if _, known := levels[o.LogLevel]; !known {
		return fmt.Errorf("--log-level: %q is not info, debug or error", o.LogLevel)
	}
	for name, address := range map[string]string{
		"--health-probe-bind-address": o.Health, "--nats-bind-address": o.NATSAddress, "--webhook-bind-address": o.WebhookAddress,
	} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: %q is not an address such as :8081", name, address)
		}
	}
	if o.NATSReplicas < 1 {
		return fmt.Errorf("--nats-replicas: must be 1 or more")
	}
	if (o.WebhookService == "") != (o.WebhookConfiguration == "") {
		return fmt.Errorf("--webhook-service and --webhook-configuration: name both, or none")
	}
	c, err := config.Read(o.ConfigFile)
	if err != nil {
		return err
	}
	if o.Namespaces != "" {
		c.Namespaces = strings.Split(o.Namespaces, ",")
	}
	o.config = c
	return nil
}

// levels are those of the log, as slog counts them.
var levels = map[string]int{"debug": -4, "info": 0, "error": 8}
