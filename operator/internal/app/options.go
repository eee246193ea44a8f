// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// Options are all settings of the operator.
type Options struct {
	// Version is the version of the build, for people.
	Version        string
	MetricsAddress string
	// MetricsAuthentication serves metrics by HTTPS, to clients that the API server allows to get the path /metrics.
	MetricsAuthentication bool
	HealthAddress         string
	PprofAddress          string
	LeaderElect           bool
	// Namespace is where the operator runs: its lease and its Secret are there.
	Namespace string
	Workers   int
	QPS       float64
	Burst     int
	// WatchNamespaces are the only namespaces that the operator works in; none means all.
	WatchNamespaces []string
	// PerScanAccess gives the parser and the hooks of each Scan an account of its own.
	PerScanAccess bool

	Scan    life.Settings
	Expiry  scan.Expiry
	Storage store.Config
	Jobs    jobs.Config

	Webhook WebhookOptions

	Endpoint EndpointOptions

	// DecisionExport is the socket of an exporter that is told of decisions; empty: nobody is.
	DecisionExport string

	// problems are what reading the environment has found wrong.
	problems field.ErrorList
}

const (
	defaultWorkers = 16
	defaultQPS     = 200
	defaultBurst   = 400
	// maxExpiry is what SigV4 allows.
	maxExpiry = 7 * 24 * time.Hour
)

// BindFlags adds the flags, with their defaults.
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`address` that serves metrics; 0 switches them off")
	fs.BoolVar(
		&o.MetricsAuthentication, "metrics-authentication", false,
		"serve metrics by HTTPS with a certificate of the process' own, to those only whose token the API server knows and whom it lets get the path /metrics",
	)
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` that serves /healthz and /readyz")
	fs.StringVar(
		&o.PprofAddress, "pprof-bind-address", "",
		"`address` that serves profiles of the operator below /debug/pprof; empty switches them off; keep it on loopback",
	)
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "let one replica work at a time; needed with more than one")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "`namespace` of the operator's lease and Secret (default: environment variable POD_NAMESPACE)")
	fs.IntVar(&o.Workers, "workers", defaultWorkers, "how many Scans are looked at at the same time")
	fs.Float64Var(&o.QPS, "kube-api-qps", defaultQPS, "requests per second to the API server, on average")
	fs.IntVar(&o.Burst, "kube-api-burst", defaultBurst, "requests to the API server at once")

	fs.Func(
		"watch-namespaces",
		"the only `namespaces` whose Scans the operator sees, comma-separated; empty for all (default: environment variable WATCH_NAMESPACES)",
		func(list string) error {
			o.WatchNamespaces = splitList(list)
			return nil
		},
	)
	fs.BoolVar(
		&o.PerScanAccess, "per-scan-access", true,
		"let the parser and the hooks of a Scan run as an account that reaches this Scan only; false takes the accounts parser and scan-completion-hook, "+
			"which reach all Scans of their namespace",
	)

	s := &o.Scan
	fs.DurationVar(
		&s.StartDeadline, "start-deadline", 30*time.Minute,
		"how long a pod of a Scan may take to start: image pulls, scheduling, quotas; its URLs (URL_EXPIRATION_PARSER, URL_EXPIRATION_HOOK) must live "+
			"longer; a Scan can set spec.deadlines.startSeconds",
	)
	fs.DurationVar(&s.ScannerDeadline, "scanner-deadline", maxExpiry, "how long a scanner may take; a Scan can set spec.deadlines.scannerSeconds")
	fs.DurationVar(&s.ParserDeadline, "parser-deadline", 6*time.Hour, "how long a parser may take; a Scan can set spec.deadlines.parserSeconds")
	fs.DurationVar(&s.HookDeadline, "hook-deadline", 6*time.Hour, "how long each hook may take; a Scan can set spec.deadlines.hookSeconds")
	fs.DurationVar(&s.MissingKindGrace, "missing-kind-grace", 30*time.Second, "how long a Scan waits for a ScanType or ParseDefinition that does not exist")
	fs.DurationVar(
		&s.CleanupDeadline, "cleanup-deadline", 10*time.Minute,
		"how long the deletion of a Scan waits for its pods and for the storage before it leaves results behind",
	)
	fs.BoolVar(&s.StatusLinks, "status-links", true, "write presigned download links into the status of Scans; whoever may read a Scan can then read its findings")

	fs.StringVar(
		&o.DecisionExport, "decision-export", "",
		"`URL` of an exporter's socket, such as unix:///run/scanyard/exporter/exporter.sock, which gets a record of what is refused, cancelled, released or lost; "+
			"empty switches that off",
	)

	o.Webhook.bindFlags(fs)
	o.Endpoint.bindFlags(fs)
}

// ReadEnv reads the environment variables of the contract. What is wrong with them is
// reported by Validate.
func (o *Options) ReadEnv(getenv func(string) string) {
	o.Namespace = getenv("POD_NAMESPACE")
	o.WatchNamespaces = splitList(getenv("WATCH_NAMESPACES"))
	o.readStorage(getenv)
	o.Expiry = scan.Expiry{
		Scan:   o.duration(getenv, "URL_EXPIRATION_SCAN"),
		Parser: o.duration(getenv, "URL_EXPIRATION_PARSER"),
		Hook:   o.duration(getenv, "URL_EXPIRATION_HOOK"),
	}
	o.readJobs(getenv)
}

func (o *Options) readStorage(getenv func(string) string) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return v
			}
		}
		return ""
	}
	o.Storage = store.Config{
		Endpoint:  getenv("S3_ENDPOINT"),
		Port:      getenv("S3_PORT"),
		UseSSL:    getenv("S3_USE_SSL") != "false",
		Bucket:    getenv("S3_BUCKET"),
		AuthType:  strings.ToLower(getenv("S3_AUTH_TYPE")),
		AccessKey: first("MINIO_ROOT_USER", "MINIO_ACCESS_KEY"),
		SecretKey: first("MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY"),
		STS:       first("S3_AWS_STS_ENDPOINT", "S3_AWS_IRSA_STS_ENDPOINT"),
		URL:       getenv("S3_URL_TEMPLATE"),
		Region:    getenv("S3_REGION"),
		PathStyle: getenv("S3_PATH_STYLE"),
		CAFile:    getenv("S3_CA_FILE"),

		PublicEndpoint: getenv("S3_PUBLIC_ENDPOINT"),
	}
	if ca := getenv("CUSTOM_CA_CERTIFICATE_NAME"); o.Storage.CAFile == "" && getenv("CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE") != "" && ca != "" {
		// The chart mounts the certificate here into the operator, as it does into the Jobs. Go reads the folder
		// by itself on most images; the file's name makes sure.
		if path := "/etc/ssl/certs/" + ca; exists(path) {
			o.Storage.CAFile = path
		}
	}
}

// splitList splits at commas and drops what is empty or twice.
func splitList(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (o *Options) duration(getenv func(string) string, name string) time.Duration {
	text := getenv(name)
	if text == "" {
		return time.Hour
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxExpiry {
		o.problems = append(o.problems, field.Invalid(field.NewPath(name), text, "must be a duration from 1s to 168h, such as 12h"))
		return time.Hour
	}
	return d
}

func (o *Options) readJobs(getenv func(string) string) {
	c := &o.Jobs
	c.Lurker.Image = getenv("LURKER_IMAGE")
	if c.Lurker.Image == "" {
		c.Lurker.Image = "securecodebox/lurker:latest"
	}
	switch policy := corev1.PullPolicy(getenv("LURKER_PULL_POLICY")); policy {
	case "":
		c.Lurker.PullPolicy = corev1.PullAlways
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		c.Lurker.PullPolicy = policy
	default:
		o.problems = append(o.problems, field.NotSupported(field.NewPath("LURKER_PULL_POLICY"), policy,
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}))
	}
	c.Lurker.SeccompProfile = o.seccomp(getenv)
	o.readCustomCA(getenv)
	c.IstioInject = getenv("ALLOW_ISTIO_SIDECAR_INJECTION_IN_JOBS") == "true"
}

func (o *Options) seccomp(getenv func(string) string) corev1.SeccompProfile {
	path := field.NewPath("LURKER_SECCOMP_PROFILE")
	switch kind := corev1.SeccompProfileType(getenv("LURKER_SECCOMP_PROFILE")); kind {
	case "", corev1.SeccompProfileTypeRuntimeDefault:
		return corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	case corev1.SeccompProfileTypeUnconfined:
		return corev1.SeccompProfile{Type: kind}
	case corev1.SeccompProfileTypeLocalhost:
		file := getenv("LURKER_SECCOMP_LOCALHOST_PROFILE")
		if file == "" {
			o.problems = append(o.problems, field.Required(field.NewPath("LURKER_SECCOMP_LOCALHOST_PROFILE"),
				"the file of the profile below the kubelet's seccomp folder, since LURKER_SECCOMP_PROFILE is Localhost"))
		}
		return corev1.SeccompProfile{Type: kind, LocalhostProfile: &file}
	default:
		o.problems = append(o.problems, field.NotSupported(path, kind, []corev1.SeccompProfileType{
			corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeUnconfined,
		}))
		return corev1.SeccompProfile{}
	}
}

// readCustomCA takes an empty variable for one that is not set, in every Job alike.
func (o *Options) readCustomCA(getenv func(string) string) {
	configMap, key := getenv("CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE"), getenv("CUSTOM_CA_CERTIFICATE_NAME")
	switch {
	case configMap == "":
	case key == "":
		o.problems = append(o.problems, field.Required(field.NewPath("CUSTOM_CA_CERTIFICATE_NAME"),
			"the key of the certificate in ConfigMap "+configMap+", since CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE is set"))
	default:
		o.Jobs.CustomCA = jobs.CustomCA{ConfigMap: configMap, Key: key}
	}
}

// Validate returns all that is wrong with the settings.
func (o *Options) Validate() field.ErrorList {
	errs := append(field.ErrorList{}, o.problems...)
	errs = append(errs, o.Storage.Validate()...)
	for name, d := range map[string]time.Duration{
		"--start-deadline": o.Scan.StartDeadline, "--scanner-deadline": o.Scan.ScannerDeadline, "--parser-deadline": o.Scan.ParserDeadline,
		"--hook-deadline": o.Scan.HookDeadline, "--missing-kind-grace": o.Scan.MissingKindGrace, "--cleanup-deadline": o.Scan.CleanupDeadline,
	} {
		if d < time.Second {
			errs = append(errs, field.Invalid(field.NewPath(name), d.String(), "must be at least 1s"))
		}
	}
	if o.Workers < 1 {
		errs = append(errs, field.Invalid(field.NewPath("--workers"), o.Workers, "must be at least 1"))
	}
	for _, n := range o.WatchNamespaces {
		for _, msg := range validation.IsDNS1123Label(n) {
			errs = append(errs, field.Invalid(field.NewPath("--watch-namespaces"), n, msg))
		}
	}
	if o.LeaderElect && o.Namespace == "" {
		errs = append(errs, field.Required(field.NewPath("--namespace"), "the namespace of the lease, since --leader-elect is set (or set POD_NAMESPACE)"))
	}
	if path, ok := strings.CutPrefix(o.DecisionExport, "unix://"); o.DecisionExport != "" && (!ok || !strings.HasPrefix(path, "/")) {
		const want = "must be a socket, such as unix:///run/scanyard/exporter/exporter.sock"
		errs = append(errs, field.Invalid(field.NewPath("--decision-export"), o.DecisionExport, want))
	}
	errs = append(errs, o.Webhook.validate(o.Namespace)...)
	return append(errs, o.Endpoint.validate(o.Namespace)...)
}

// Describe lists problems for people, one a line.
func Describe(errs field.ErrorList) string {
	lines := make([]string, 0, len(errs))
	for _, e := range errs {
		lines = append(lines, fmt.Sprintf("  %s", e.Error()))
	}
	return strings.Join(lines, "\n")
}
