// SPDX-License-Identifier: Apache-2.0

package v1alpha2_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

func forwarding(t *testing.T, text string) *v1alpha2.ClusterResultForwarding {
	t.Helper()
	f := &v1alpha2.ClusterResultForwarding{}
	if err := yaml.UnmarshalStrict([]byte(text), f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestForwardingThatWorks has every provider, and the form in which all of it was first proposed.
func TestForwardingThatWorks(t *testing.T) {
	for name, text := range map[string]string{
		"Proposal": `{provider: grpc, grpc: {endpoint: "https://compliance.example.com:443", version: v1, extraMetadata: {clusterName: a, clusterType: b},
			tls: {insecure: false, dynamic: {}}, authentication: {serverCA: ca, mtlsClientCert: cert, token: {secretName: t}}}}`,
		"HostPort":  `{provider: grpc, grpc: {endpoint: "10.0.0.1:9443"}}`,
		"IPv6":      `{provider: grpc, grpc: {endpoint: "grpcs://[::1]:9443"}}`,
		"NoPort":    `{provider: grpc, grpc: {endpoint: "grpcs://hub"}}`,
		"Plain":     `{provider: grpc, grpc: {endpoint: "grpc://hub:1", tls: {insecure: true}}}`,
		"PlainBare": `{provider: grpc, grpc: {endpoint: "hub:1", tls: {insecure: true}}}`,
		"HTTP":      `{provider: http, http: {url: "https://h/path?q=1", headers: {X-Team: a}, authentication: {basic: {secretName: s}, signing: {secretName: s}}}}`,
		"Kafka":     `{provider: kafka, kafka: {brokers: ["a:9093", "b:9093"], topic: t, sasl: {mechanism: SCRAM-SHA-512, secretName: s}}}`,
		"NATS":      `{provider: nats, nats: {url: "tls://n", subject: "scanyard.{cluster}.{tenant}.{kind}"}}`,
		"OTLP":      `{provider: otlp, otlp: {endpoint: "https://o/v1/logs", protocol: http}, provesStorage: true}`,
		"S3":        `{provider: s3, s3: {endpoint: "https://s", bucket: results}}`,
		"File":      `{provider: file, file: {directory: /a/b}}`,
		"Several":   `{provider: file, file: {directory: a}, sinks: [{name: siem, provider: grpc, grpc: {endpoint: "h:1"}, namespaceSelector: {matchLabels: {a: b}}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range v1alpha2.ValidateForwarding(forwarding(t, text), field.NewPath("spec", "resultForwarding")) {
				t.Error(e)
			}
		})
	}
}

// TestForwardingIsRefused with the field and the remedy, and never with a password.
func TestForwardingIsRefused(t *testing.T) {
	const such = "such as https://compliance.example.com:443"
	for name, tc := range map[string]struct {
		text  string
		wants []string
	}{
		"UnknownProvider": {`{provider: fax}`, []string{"provider", `"grpc", "http", "kafka", "nats", "otlp", "s3", "file"`}},
		"NoProvider":      {`{sinks: [{name: a, grpc: {endpoint: "h:1"}}]}`, []string{"sinks[a].provider"}},
		"NoBlock":         {`{provider: grpc}`, []string{"provider is grpc: describe it in resultForwarding.grpc"}},
		"OtherBlock":      {`{provider: grpc, http: {url: "https://h"}}`, []string{"provider is grpc: describe it in resultForwarding.grpc and remove http"}},
		"BesideBlock":     {`{provider: grpc, grpc: {endpoint: "h:1"}, s3: {}}`, []string{"describe it in resultForwarding.grpc and remove s3"}},
		"NamedDefault":    {`{provider: file, file: {directory: a}, sinks: [{name: default, provider: file, file: {directory: a}}]}`, []string{"the sink beside sinks is called default: choose another name"}},
		"Scheme":          {`{provider: grpc, grpc: {endpoint: "ftp://h"}}`, []string{"grpc.endpoint", `"ftp"`, such}},
		"Unparsable":      {`{provider: grpc, grpc: {endpoint: "https://u:geheim@h:x"}}`, []string{`"https://h:x"`, such}},
		"UserInfo":        {`{provider: grpc, grpc: {endpoint: "https://u:geheim@h:1"}}`, []string{`"https://h:1"`, "user info", such}},
		"UserInfoSlash":   {`{provider: grpc, grpc: {endpoint: "https://u:ge/heim@h:1"}}`, []string{`"https://h:1"`, such}},
		"PortZero":        {`{provider: grpc, grpc: {endpoint: "https://h:0"}}`, []string{`"0"`, such}},
		"PortHigh":        {`{provider: grpc, grpc: {endpoint: "h:65536"}}`, []string{`"65536"`, such}},
		"Path":            {`{provider: grpc, grpc: {endpoint: "https://h/x"}}`, []string{"path", such}},
		"Query":           {`{provider: grpc, grpc: {endpoint: "https://h?x"}}`, []string{"query", such}},
		"NoHost":          {`{provider: grpc, grpc: {endpoint: "https://:1"}}`, []string{"host", such}},
		"BareHost":        {`{provider: grpc, grpc: {endpoint: "h"}}`, []string{"host:port", such}},
		"Plain":           {`{provider: grpc, grpc: {endpoint: "http://h"}}`, []string{"would send findings in plain text: use https, or set tls.insecure where that is meant"}},
		"PlainCase":       {`{provider: http, http: {url: "HTTP://h"}}`, []string{"would send findings in plain text"}},
		"PlainNATS":       {`{provider: nats, nats: {url: "nats://h", subject: s}}`, []string{"nats.url", "would send findings in plain text"}},
		"PlainToken": {
			`{provider: grpc, grpc: {endpoint: "http://h", tls: {insecure: true}, authentication: {token: {secretName: t}}}}`,
			[]string{"would send the token in plain text: remove token or tls.insecure"},
		},
		"PlainPassword": {`{provider: http, http: {url: "http://h", tls: {insecure: true}, authentication: {basic: {secretName: t}}}}`, []string{"would send the password in plain text"}},
		"PlainSASL":     {`{provider: kafka, kafka: {brokers: ["h:1"], topic: t, tls: {insecure: true}, sasl: {mechanism: PLAIN, secretName: s}}}`, []string{"would send the password in plain text"}},
		"CASecret": {
			`{provider: grpc, grpc: {endpoint: "h:1", tls: {dynamic: {caSecretName: a}}}}`,
			[]string{"grpc.tls.dynamic.caSecretName", "holds the CA's private key, which no sender may have: put the certificate alone into a ConfigMap and name it in authentication.serverCA"},
		},
		"ServerSecret": {`{provider: grpc, grpc: {endpoint: "h:1", tls: {dynamic: {serverSecretName: a}}}}`, []string{"is the receiver's private key: it belongs to the receiver only; remove it"}},
		"ClientSecret": {`{provider: grpc, grpc: {endpoint: "h:1", tls: {dynamic: {clientSecretName: a}}}}`, []string{"is called authentication.mtlsClientCert"}},
		"Metadata":     {`{extraMetadata: {1a: b}}`, []string{"extraMetadata[1a]"}},
		"OwnMetadata":  {`{extraMetadata: {scanyard-a: b}}`, []string{"choose another key"}},
		"LongMetadata": {`{extraMetadata: {a: ` + strings.Repeat("é", 513) + `}}`, []string{"extraMetadata[a]", "1024"}},
		"Header":       {`{provider: http, http: {url: "https://h", headers: {aUthorization: x}}}`, []string{"headers[aUthorization]", "use authentication"}},
		"HeaderValue":  {`{provider: http, http: {url: "https://h", headers: {a: "x\ny"}}}`, []string{"control character"}},
		"Subject":      {`{provider: nats, nats: {url: "tls://h", subject: "a.*.{nobody}"}}`, []string{"nats.subject", "scanyard.{cluster}.{tenant}.{kind}"}},
		"Directory":    {`{provider: file, file: {directory: a/../../b}}`, []string{"file.directory", "--file-root"}},
		"FileProof":    {`{provider: file, file: {directory: a}, provesStorage: true}`, []string{"a file never proves storage"}},
		"Selector":     {`{provider: file, file: {directory: a}, namespaceSelector: {matchExpressions: [{key: a, operator: Maybe}]}}`, []string{"namespaceSelector"}},
		"TooLarge":     {`{sinks: [` + strings.Repeat(`{name: a, provider: http, http: {url: "https://`+strings.Repeat("a.", 1000)+`b"}},`, 19) + `]}`, []string{"have fewer sinks"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := v1alpha2.ValidateForwarding(forwarding(t, tc.text), field.NewPath("spec", "resultForwarding")).ToAggregate()
			if got == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.wants {
				if !strings.Contains(got.Error(), want) {
					t.Errorf("%v\nlacks %q", got, want)
				}
			}
			if strings.Contains(got.Error(), "heim") {
				t.Errorf("%v has a password", got)
			}
		})
	}
}
