// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"net/url"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/discovery/internal/scanconfig"
)

// Environment variables that take precedence over the file.
const (
	EnvQueueURL = "SQS_QUEUE_URL"
	EnvRegion   = "AWS_REGION"
)

const (
	defaultVisibility  = 20 * time.Second
	defaultWait        = 20 * time.Second
	defaultBatch       = 1
	defaultMaxReceives = 5
	defaultResync      = time.Hour

	maxWait       = 20 * time.Second // of SQS
	maxVisibility = 12 * time.Hour   // of SQS
	minVisibility = 2 * time.Second
	maxBatch      = 10 // of SQS
	minResync     = time.Minute
)

// Config is the file. The fields that secureCodeBox has are called as there.
type Config struct {
	// APIVersion and Kind may be there, as in the configuration of the auto-discovery for
	// Kubernetes, and say nothing.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`

	AWS        SourceConfig     `json:"aws,omitzero"`
	Kubernetes KubernetesConfig `json:"kubernetes,omitzero"`
	// Health, Metrics and LeaderElection are additions, called as in the configuration of
	// the auto-discovery for Kubernetes.
	Health         HealthConfig         `json:"health,omitzero"`
	Metrics        MetricsConfig        `json:"metrics,omitzero"`
	LeaderElection LeaderElectionConfig `json:"leaderElection,omitzero"`
}

// Aws is the part aws, called as templates for secureCodeBox call it.
func (c Config) Aws() SourceConfig { return c.AWS }

// QueueUrl is the URL of the queue, called as templates for secureCodeBox call it.
func (a SourceConfig) QueueUrl() string { return a.QueueURL }

// SourceConfig says where events come from.
type SourceConfig struct {
	// QueueURL is the URL of the SQS queue to which an EventBridge rule sends ECS events.
	QueueURL string `json:"queueUrl,omitempty"`
	// Region is that of the queue; without it it is taken from the URL.
	Region string `json:"region,omitempty"`

	// MaxNumberOfMessages is how many messages one request takes: 1 to 10.
	MaxNumberOfMessages int32 `json:"maxNumberOfMessages,omitempty"`
	// VisibilityTimeout is for how long a message in work is hidden from others; it is
	// extended while the work goes on. It is also the pause before a message that failed
	// is tried again.
	VisibilityTimeout metav1.Duration `json:"visibilityTimeout,omitzero"`
	// WaitTime is for how long a request waits for a message.
	WaitTime metav1.Duration `json:"waitTime,omitzero"`
	// MaxReceives is how often a message is tried that makes no sense, before it is
	// thrown away. It has no effect where the queue has a redrive policy.
	MaxReceives int `json:"maxReceives,omitempty"`

	Sync SyncConfig `json:"sync,omitzero"`
}

// SyncConfig lets the running tasks be listed, at start and from time to time, so that
// nothing is missed that ran before there was a queue, or whose events were lost.
type SyncConfig struct {
	// Enabled needs the rights ecs:ListTasks and ecs:DescribeTasks, and ecs:ListClusters
	// where clusters is empty.
	Enabled bool `json:"enabled,omitempty"`
	// Clusters are ARNs of clusters; empty means all of the account in the region.
	Clusters []string `json:"clusters,omitempty"`
}

// KubernetesConfig says what is made of the events.
type KubernetesConfig struct {
	// Namespace is where ScheduledScans are made; the program's own where empty.
	Namespace string `json:"namespace,omitempty"`
	// ScanConfigs are how images are scanned.
	ScanConfigs []scanconfig.ScanConfig `json:"scanConfigs,omitempty"`
	// ResyncInterval is how often the ScheduledScans, and with aws.sync the tasks, are
	// listed again.
	ResyncInterval metav1.Duration `json:"resyncInterval,omitzero"`
}

// HealthConfig says where /healthz and /readyz are served.
type HealthConfig struct {
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
}

// MetricsConfig says where metrics are served; "0" switches them off.
type MetricsConfig struct {
	BindAddress string `json:"bindAddress,omitempty"`
}

// LeaderElectionConfig lets only one of several replicas work.
type LeaderElectionConfig struct {
	LeaderElect  bool   `json:"leaderElect,omitempty"`
	ResourceName string `json:"resourceName,omitempty"`
}

// DefaultLease is the name of the lease where the configuration gives none.
const DefaultLease = "auto-discovery-cloud-aws.scanyard.io"

// Settings are a Config that is complete and right.
type Settings struct {
	Config
	templates []*scanconfig.Template
}

// Load reads the file called name, lets the environment override it, fills in defaults
// and validates. ownNamespace is where ScheduledScans go when the file does not say.
func Load(name string, data []byte, getenv func(string) string, ownNamespace string) (*Settings, error) {
	s := &Settings{}
	file, err := strictyaml.Decode(name, data, &s.Config)
	if err != nil {
		return nil, err
	}
	if v := getenv(EnvQueueURL); v != "" {
		s.AWS.QueueURL = v
	}
	if v := getenv(EnvRegion); v != "" {
		s.AWS.Region = v
	}
	s.setDefaults(ownNamespace)
	if err := file.Check(s.validate()); err != nil {
		return nil, err
	}
	return s, nil
}

var regionInURL = regexp.MustCompile(`^(?:sqs|queue)\.([a-z]{2}(?:-[a-z]+)+-\d+)\.`)

func (s *Settings) setDefaults(ownNamespace string) {
	a := &s.AWS
	if a.Region == "" {
		if u, err := url.Parse(a.QueueURL); err == nil {
			if m := regionInURL.FindStringSubmatch(u.Hostname()); m != nil {
				a.Region = m[1]
			}
		}
	}
	setDefault(&a.MaxNumberOfMessages, defaultBatch)
	setDefault(&a.VisibilityTimeout.Duration, defaultVisibility)
	setDefault(&a.WaitTime.Duration, defaultWait)
	setDefault(&a.MaxReceives, defaultMaxReceives)
	setDefault(&s.Kubernetes.Namespace, ownNamespace)
	setDefault(&s.Kubernetes.ResyncInterval.Duration, defaultResync)
	setDefault(&s.Health.HealthProbeBindAddress, ":8081")
	setDefault(&s.Metrics.BindAddress, "127.0.0.1:8080")
	setDefault(&s.LeaderElection.ResourceName, DefaultLease)
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

func (s *Settings) validate() field.ErrorList {
	errs := s.AWS.validate(field.NewPath("aws"))
	path := field.NewPath("kubernetes")
	if ns := s.Kubernetes.Namespace; ns == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "where ScheduledScans are made; outside of a cluster there is no default"))
	} else {
		for _, msg := range validation.IsDNS1123Label(ns) {
			errs = append(errs, field.Invalid(path.Child("namespace"), ns, msg))
		}
	}
	if d := s.Kubernetes.ResyncInterval.Duration; d < minResync {
		errs = append(errs, field.Invalid(path.Child("resyncInterval"), d.String(), "must be at least "+minResync.String()))
	}
	if len(s.Kubernetes.ScanConfigs) == 0 {
		errs = append(errs, field.Required(path.Child("scanConfigs"), "at least one; without it nothing would ever be scanned"))
	}
	templates, problems := scanconfig.CompileAll(s.Kubernetes.ScanConfigs, path.Child("scanConfigs"), s.sample())
	s.templates = templates
	return append(errs, problems...)
}

func (a *SourceConfig) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.QueueURL == "" {
		errs = append(
			errs,
			field.Required(
				path.Child("queueUrl"),
				"the URL of the SQS queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/ecs-events, here or in the variable "+EnvQueueURL,
			),
		)
	} else if u, err := url.Parse(a.QueueURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		errs = append(errs, field.Invalid(path.Child("queueUrl"), a.QueueURL, "must be a URL such as https://sqs.eu-central-1.amazonaws.com/123456789012/ecs-events"))
	}
	if n := a.MaxNumberOfMessages; n < 1 || n > maxBatch {
		errs = append(errs, field.Invalid(path.Child("maxNumberOfMessages"), n, "must be 1 to 10"))
	}
	if d := a.VisibilityTimeout.Duration; d < minVisibility || d > maxVisibility {
		errs = append(errs, field.Invalid(path.Child("visibilityTimeout"), d.String(), "must be 2s to 12h"))
	}
	if d := a.WaitTime.Duration; d < time.Second || d > maxWait {
		errs = append(errs, field.Invalid(path.Child("waitTime"), d.String(), "must be 1s to 20s"))
	}
	if a.MaxReceives < 1 {
		errs = append(errs, field.Invalid(path.Child("maxReceives"), a.MaxReceives, "must be at least 1"))
	}
	for i, c := range a.Sync.Clusters {
		if !clusterARN.MatchString(c) {
			errs = append(
				errs,
				field.Invalid(path.Child("sync", "clusters").Index(i), c, "must be the ARN of a cluster, such as arn:aws:ecs:eu-central-1:123456789012:cluster/shop"),
			)
		}
	}
	return errs
}

var clusterARN = regexp.MustCompile(`^arn:[a-z-]+:ecs:[a-z0-9-]+:\d*:cluster/[A-Za-z0-9_-]+$`)
