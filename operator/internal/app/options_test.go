// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/scanyard/scanyard/operator/internal/rbac"
)

// working are settings that are enough.
var working = map[string]string{"S3_ENDPOINT": "s3.example.com", "S3_BUCKET": "results"}

func read(t *testing.T, env map[string]string, args ...string) Options {
	t.Helper()
	var o Options
	all := map[string]string{}
	for _, m := range []map[string]string{working, env} {
		maps.Copy(all, m)
	}
	o.ReadEnv(func(name string) string { return all[name] })
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	o.BindFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDefaults(t *testing.T) {
	o := read(t, nil)
	if errs := o.Validate(); len(errs) > 0 {
		t.Fatalf("defaults are refused: %v", errs)
	}
	if o.Workers != 16 || o.Expiry.Scan != time.Hour || !o.Storage.UseSSL || o.Jobs.Lurker.Image != "securecodebox/lurker:latest" ||
		o.Jobs.Lurker.PullPolicy != corev1.PullAlways || o.Jobs.Lurker.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || !o.Scan.StatusLinks {
		t.Errorf("defaults are not the contract's: %+v", o)
	}
}

// TestDefect28WrongSettingsStopTheStart: each is reported at start, by name, and not by
// a crash in the midst of a Scan.
func TestDefect28WrongSettingsStopTheStart(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"NoStorage":      {map[string]string{"S3_ENDPOINT": "", "S3_BUCKET": ""}, nil, []string{"S3_ENDPOINT", "S3_BUCKET"}},
		"ExpiryText":     {map[string]string{"URL_EXPIRATION_PARSER": "1 hour"}, nil, []string{"URL_EXPIRATION_PARSER", "12h"}},
		"ExpiryLong":     {map[string]string{"URL_EXPIRATION_SCAN": "200h"}, nil, []string{"URL_EXPIRATION_SCAN"}},
		"Template":       {map[string]string{"S3_URL_TEMPLATE": "{{ .Scan.Labels.x }}"}, nil, []string{"S3_URL_TEMPLATE"}},
		"Port":           {map[string]string{"S3_PORT": "https"}, nil, []string{"S3_PORT"}},
		"PullPolicy":     {map[string]string{"LURKER_PULL_POLICY": "Sometimes"}, nil, []string{"LURKER_PULL_POLICY", "IfNotPresent"}},
		"Seccomp":        {map[string]string{"LURKER_SECCOMP_PROFILE": "None"}, nil, []string{"LURKER_SECCOMP_PROFILE"}},
		"CAWithoutKey":   {map[string]string{"CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE": "ca"}, nil, []string{"CUSTOM_CA_CERTIFICATE_NAME"}},
		"PathStyle":      {map[string]string{"S3_PATH_STYLE": "yes"}, nil, []string{"S3_PATH_STYLE"}},
		"Workers":        {nil, []string{"--workers=0"}, []string{"--workers"}},
		"Deadline":       {nil, []string{"--parser-deadline=0s"}, []string{"--parser-deadline"}},
		"LeaderNowhere":  {nil, []string{"--leader-elect"}, []string{"--namespace", "POD_NAMESPACE"}},
		"UploadURL":      {map[string]string{"POD_NAMESPACE": "n"}, []string{"--upload-endpoint-url=http://x"}, []string{"--upload-endpoint-url", "https"}},
		"ResultsURL":     {nil, []string{"--results-endpoint-url=https://"}, []string{"--results-endpoint-url", "https", "--namespace"}},
		"DecisionExport": {nil, []string{"--decision-export=grpc://exporter:9443"}, []string{"--decision-export", "unix:///"}},
		"SeveralAtOnce":  {map[string]string{"S3_BUCKET": "", "URL_EXPIRATION_HOOK": "x"}, []string{"--workers=-1"}, []string{"S3_BUCKET", "URL_EXPIRATION_HOOK", "--workers"}},
		"WatchNamespace": {nil, []string{"--watch-namespaces=team-a,Team B"}, []string{"--watch-namespaces", "Team B"}},
		"NegativeExpiry": {map[string]string{"URL_EXPIRATION_HOOK": "-1h"}, nil, []string{"URL_EXPIRATION_HOOK"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := read(t, tc.env, tc.args...)
			said := Describe(o.Validate())
			for _, want := range tc.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is missing in:\n%s", want, said)
				}
			}
		})
	}
}

// TestDefect29AnEmptyCAVariableIsUnset in every Job alike.
func TestDefect29AnEmptyCAVariableIsUnset(t *testing.T) {
	o := read(t, map[string]string{"CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE": "", "CUSTOM_CA_CERTIFICATE_NAME": "public.crt"})
	if errs := o.Validate(); len(errs) > 0 || o.Jobs.CustomCA.ConfigMap != "" || o.Jobs.CustomCA.Key != "" {
		t.Errorf("CA %+v, errors %v; want none of both", o.Jobs.CustomCA, errs)
	}
}

// TestDefect30LocalhostSeccompNeedsAndGetsItsProfile for the lurker.
func TestDefect30LocalhostSeccompNeedsAndGetsItsProfile(t *testing.T) {
	without := read(t, map[string]string{"LURKER_SECCOMP_PROFILE": "Localhost"})
	if said := Describe(without.Validate()); !strings.Contains(said, "LURKER_SECCOMP_LOCALHOST_PROFILE") {
		t.Errorf("said %q, want the variable that is missing", said)
	}
	with := read(t, map[string]string{"LURKER_SECCOMP_PROFILE": "Localhost", "LURKER_SECCOMP_LOCALHOST_PROFILE": "lurker.json"})
	if p := with.Jobs.Lurker.SeccompProfile.LocalhostProfile; p == nil || *p != "lurker.json" {
		t.Errorf("profile %v, want lurker.json", p)
	}
}

// TestDefect56StorageSettings: region, path style, CA, and both orders of STS.
func TestDefect56StorageSettings(t *testing.T) {
	s := read(t, map[string]string{
		"S3_REGION": "eu-central-1", "S3_PATH_STYLE": "true", "S3_CA_FILE": "/ca.pem", "S3_AUTH_TYPE": "AWS-IRSA", "S3_PUBLIC_ENDPOINT": "https://s3.example.com",
		"S3_AWS_IRSA_STS_ENDPOINT": "https://irsa", "S3_AWS_STS_ENDPOINT": "https://sts", "MINIO_ACCESS_KEY": "a", "MINIO_ROOT_USER": "root",
	}).Storage
	if s.Region != "eu-central-1" || s.PathStyle != "true" || s.CAFile != "/ca.pem" || s.PublicEndpoint != "https://s3.example.com" || s.AuthType != "aws-irsa" || s.STS != "https://sts" || s.AccessKey != "root" {
		t.Errorf("storage settings %+v", s)
	}
}

// TestDefect57WatchNamespaces come from a flag or the environment, and bound the cache.
func TestDefect57WatchNamespaces(t *testing.T) {
	cases := map[string]struct {
		env  string
		args []string
		want []string
	}{
		"None":     {"", nil, nil},
		"Flag":     {"", []string{"--watch-namespaces= team-a, ,team-b,team-a"}, []string{"team-a", "team-b"}},
		"Env":      {"team-a,team-b", nil, []string{"team-a", "team-b"}},
		"FlagWins": {"team-a", []string{"--watch-namespaces=team-b"}, []string{"team-b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := read(t, map[string]string{"WATCH_NAMESPACES": tc.env}, tc.args...)
			if errs := o.Validate(); len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := slices.Sorted(maps.Keys(o.cache().DefaultNamespaces)); !slices.Equal(got, tc.want) || !slices.Equal(o.WatchNamespaces, tc.want) {
				t.Errorf("namespaces %v, cached %v, want %v", o.WatchNamespaces, got, tc.want)
			}
		})
	}
}

// TestAccessMode: an account per Scan unless it is switched off.
func TestAccessMode(t *testing.T) {
	byDefault, off := read(t, nil), read(t, nil, "--per-scan-access=false")
	if byDefault.accessMode() != rbac.PerScan || off.accessMode() != rbac.Shared {
		t.Errorf("modes %v and %v, want one account per Scan by default", byDefault.accessMode(), off.accessMode())
	}
}

// TestCertificateNames: pods call the server by one name, the forwarder perhaps by another.
func TestCertificateNames(t *testing.T) {
	const service, other = "--results-endpoint-url=https://scanyard.scanyard-system.svc:8443", "--upload-endpoint-url=https://scans.example.com"
	cases := map[string]struct {
		args []string
		want []string
	}{
		"Uploads":   {[]string{other}, []string{"scans.example.com"}},
		"Results":   {[]string{service}, []string{"scanyard.scanyard-system.svc"}},
		"Both":      {[]string{service, other}, []string{"scans.example.com", "scanyard.scanyard-system.svc"}},
		"OneForTwo": {[]string{service, "--upload-endpoint-url=https://scanyard.scanyard-system.svc:8443"}, []string{"scanyard.scanyard-system.svc"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := read(t, map[string]string{"POD_NAMESPACE": "scanyard-system"}, tc.args...)
			r, err := o.Endpoint.certificate(o.Namespace)
			if got := append([]string{r.Host}, r.Also...); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%v %v, want %v", got, err, tc.want)
			}
		})
	}
}
