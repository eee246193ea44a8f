// SPDX-License-Identifier: Apache-2.0

package target

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/settings"
)

// read makes the target of a sink in YAML, of a namespace where there is one.
func read(t *testing.T, text, namespace string) (Target, error) {
	t.Helper()
	s := settings.EffectiveSink{ID: "cluster/x", Namespace: namespace}
	if err := yaml.UnmarshalStrict([]byte(text), &s.Sink); err != nil {
		t.Fatal(err)
	}
	return Of(&s, "release", "/files")
}

func TestTargets(t *testing.T) {
	for name, tt := range map[string]struct {
		text, namespace string
		url             string
		options         map[string]string
		insecure        bool
		references      References
	}{
		"GRPC": {
			text: `{provider: grpc, grpc: {endpoint: "https://hub.example.com", compression: Gzip, authentication: {serverCA: ca, mtlsClientCert: c, token: {secretName: s}}}}`, url: "grpcs://hub.example.com:443", options: map[string]string{"compression": "Gzip"},
			references: References{ServerCA: Place{"release", "ca"}, CAKey: "ca.crt", ClientCertificate: Place{"release", "c"}, Token: Place{"release", "s"}, TokenKey: "token"},
		},
		"Plain": {text: `{provider: grpc, grpc: {endpoint: "hub:9000", tls: {insecure: true}}}`, url: "grpc://hub:9000", insecure: true},
		"Foreign": {
			text: `{provider: grpc, grpc: {endpoint: "hub:9000", authentication: {serverCA: ca, serverCAKey: k, token: {secretName: s, key: t, secretNamespace: shared}}}}`, namespace: "team-a", url: "grpcs://hub:9000",
			references: References{ServerCA: Place{"team-a", "ca"}, CAKey: "k", Token: Place{"shared", "s"}, TokenKey: "t", Foreign: "team-a"},
		},
		"HTTP": {
			text: `{provider: http, http: {url: "https://x.example.com/in?a=b", format: NDJSON, headers: {X-Team: a}, authentication: {basic: {secretName: b}, signing: {secretName: w}}}}`, url: "https://x.example.com/in?a=b",
			options: map[string]string{"format": "NDJSON", "header.X-Team": "a"}, references: References{CAKey: "ca.crt", Login: Place{"release", "b"}, UserKey: "username", PasswordKey: "password", Further: Place{"release", "w"}},
		},
		"Kafka": {
			text: `{provider: kafka, provesStorage: true, kafka: {brokers: ["a:9093", "b:9093", "c:9093"], topic: results, sasl: {mechanism: SCRAM-SHA-512, secretName: k}}}`, url: "kafka://a:9093/results",
			options: map[string]string{"brokers": "b:9093+c:9093", "mechanism": "SCRAM-SHA-512", "provesStorage": "true"}, references: References{Login: Place{"release", "k"}, UserKey: "username", PasswordKey: "password"},
		},
		"OAuth": {text: `{provider: kafka, kafka: {brokers: ["a:9093"], topic: r, sasl: {mechanism: OAUTHBEARER, secretName: k}}}`, url: "kafka://a:9093/r", options: map[string]string{"mechanism": "OAUTHBEARER"}, references: References{Token: Place{"release", "k"}, TokenKey: "token"}},
		"NATS": {
			text: `{provider: nats, nats: {url: "tls://n.example.com", subject: "scans.{tenant}", ordered: true, authentication: {credentialsSecret: c}}}`, url: "tls://n.example.com:4222/scans.%7Btenant%7D", options: map[string]string{"ordered": "true"},
			references: References{CAKey: "ca.crt", Further: Place{"release", "c"}, FurtherKey: "creds"},
		},
		"OTLP": {text: `{provider: otlp, otlp: {endpoint: "https://o.example.com/v1/logs", protocol: http}}`, url: "otlp://o.example.com:443/v1/logs", options: map[string]string{"protocol": "http"}},
		"S3": {
			text: `{provider: s3, s3: {endpoint: "https://s3.example.com", bucket: results, prefix: scans, region: eu, pathStyle: true, objectLock: 30, credentialsSecret: k}}`, url: "s3://results/scans",
			options: map[string]string{"endpoint": "https://s3.example.com:443", "region": "eu", "pathStyle": "true", "objectLock": "30"}, references: References{Login: Place{"release", "k"}, UserKey: "accessKey", PasswordKey: "secretKey"},
		},
		"File":  {text: `{provider: file, file: {directory: "hub/results"}}`, url: "file:///files/hub/results"},
		"Above": {text: `{provider: file, file: {directory: "../../etc"}}`, url: "file:///files/etc"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, tt.text, tt.namespace)
			if err != nil {
				t.Fatal(err)
			}
			if tt.options == nil {
				tt.options = map[string]string{}
			}
			if got.Config.URL.String() != tt.url || got.Config.Insecure != tt.insecure {
				t.Errorf("got %s, insecure %t", got.Config.URL, got.Config.Insecure)
			}
			if diff := cmp.Diff(tt.options, got.Config.Options); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.references, got.References); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTargetCommonFields(t *testing.T) {
	got, err := read(t, `{provider: grpc, timeoutSeconds: 7, maxRecordsPerSecond: 9, batch: {maxRecords: 3, maxBytes: 20000}, retry: {initialMilliseconds: 20, maxSeconds: 4}, grpc: {endpoint: "a:1", tls: {minVersion: TLS12, serverName: name}}}`, "")
	if err != nil || got.Config.Timeout != 7*time.Second || got.PerSecond != 9 || got.MaxRecords != 3 || got.MaxBytes != 20000 ||
		got.Retry != (retry.Bounds{Initial: 20 * time.Millisecond, Max: 4 * time.Second}) || !got.Config.TLS12 || got.Config.ServerName != "name" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	for want, text := range map[string]string{
		"provider \"grpc\" has no block":      `{provider: grpc}`,
		"the endpoint \"x\" is not host:port": `{provider: grpc, grpc: {endpoint: x}}`,
	} {
		if _, err := read(t, text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := settings.EffectiveSink{Sink: settingsv1alpha2.Sink{Provider: settingsv1alpha2.ProviderFile, File: &settingsv1alpha2.FileSink{Directory: "d"}}}
	if _, err := Of(&s, "release", ""); err == nil || !strings.Contains(err.Error(), "--file-root") {
		t.Errorf("got %v", err)
	}
}

func TestGuard(t *testing.T) {
	guard := Guard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.7.0/24")}, []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")})
	for address, allowed := range map[string]bool{
		"93.184.216.34:443": true, "10.96.0.2:443": true, "127.0.0.1:443": true, "169.254.7.1:80": true, "[2001:db8::1]:443": true,
		"[::ffff:127.0.0.1]:443": true, "[::1]:443": false, "169.254.169.254:80": false, "[fe80::1%eth0]:443": false, "0.0.0.0:443": false,
		"[::]:443": false, "224.0.0.1:443": false, "[ff02::1]:443": false, "10.96.0.1:443": false, "[::ffff:10.96.0.1]:443": false, "host:1": false, "x": false,
	} {
		if err := guard("tcp", address); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}
