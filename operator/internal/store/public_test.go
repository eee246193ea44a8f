// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestPresignLink signs links for people at another host than those for Jobs, without a request to it.
func TestPresignLink(t *testing.T) {
	base := Config{
		Endpoint: "minio.storage.svc.cluster.local", Port: "9000", Bucket: "results", Region: "eu-central-1", PathStyle: "true",
		AccessKey: "key", SecretKey: "secret",
	}
	owner := Owner{UID: "u", Name: "s", Namespace: "n"}
	cases := map[string]struct{ reason, public, style, want string }{
		"None":     {"links go where Jobs go", "", "true", "http://minio.storage.svc.cluster.local:9000/results/scan-u/findings.json"},
		"HTTPS":    {"an ingress has TLS although the store has not", "https://s3.example.com", "true", "https://s3.example.com/results/scan-u/findings.json"},
		"Port":     {"a slash at the end means nothing", "http://s3.example.com:8080/", "true", "http://s3.example.com:8080/results/scan-u/findings.json"},
		"DNSStyle": {"buckets may be hosts", "https://s3.example.com", "false", "https://results.s3.example.com/scan-u/findings.json"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := base
			config.PublicEndpoint, config.PathStyle = c.public, c.style
			s, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			link, err := s.PresignLink(t.Context(), http.MethodGet, owner, "findings.json", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			where, query, _ := strings.Cut(link, "?")
			values, err := url.ParseQuery(query)
			if err != nil || where != c.want || values.Get("X-Amz-Expires") != "3600" || !strings.Contains(values.Get("X-Amz-Credential"), "/eu-central-1/") {
				t.Errorf("%s: link to %s with %v, want %s", c.reason, where, values, c.want)
			}
			own, err := s.PresignDownload(t.Context(), owner, "findings.json", time.Hour)
			if err != nil || !strings.Contains(own, "minio.storage.svc.cluster.local:9000/") {
				t.Errorf("Jobs get %s, %v", own, err)
			}
		})
	}
}

func TestPublicEndpointIsChecked(t *testing.T) {
	cases := map[string]string{
		"NoScheme": "s3.example.com", "Path": "https://example.com/s3", "Query": "https://example.com?x=1", "User": "https://a:b@example.com",
		"Scheme": "ftp://example.com", "NoHost": "https://",
	}
	for name, text := range cases {
		c := Config{Endpoint: "s3", Bucket: "b", PublicEndpoint: text}
		errs := c.Validate()
		if len(errs) != 1 || errs[0].Field != "S3_PUBLIC_ENDPOINT" {
			t.Errorf("%s: %v", name, errs)
		}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "S3_PUBLIC_ENDPOINT") {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}
