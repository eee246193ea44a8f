// SPDX-License-Identifier: Apache-2.0

package distribution_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

var start = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

// loopback resolves all names to this machine, but inner names to metadata.
func loopback(_ context.Context, host string) ([]netip.Addr, error) {
	if strings.HasPrefix(host, "inner.") {
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func dialer() *egress.Dialer {
	return egress.NewDialer(egress.Rules{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, egress.WithResolve(loopback))
}

type fixture struct {
	*distribution.Client

	clock *registrytest.Clock
	hosts *limits.Hosts
	host  *limits.Host
}

// connect makes a client of a registry under the name registry.example.com.
func connect(t *testing.T, r *registrytest.Registry, changes ...func(*distribution.Options)) fixture {
	t.Helper()
	f := fixture{clock: registrytest.NewClock(start), hosts: limits.NewHosts(limits.Bounds{Items: 8})}
	f.host = f.hosts.Host(limits.Key{Host: "registry.example.com"})
	o := distribution.Options{
		URL: "http://registry.example.com:" + r.Port(), PlainHTTP: true, Dialer: dialer(), Item: f.host.NewItem(start, 0, 0), Clock: f.clock,
		Chance: func() float64 { return 0.5 },
	}
	if certificate := r.Certificate(); certificate != nil {
		o.URL, o.PlainHTTP = "https://registry.example.com:"+r.Port(), false
		o.Roots = x509.NewCertPool()
		o.Roots.AddCert(certificate)
	}
	for _, change := range changes {
		change(&o)
	}
	client, err := distribution.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.Client = client
	return f
}

// secret gives credentials for hosts: each text is key=user:password.
func secret(t *testing.T, host string, texts ...string) func(*distribution.Options) {
	t.Helper()
	var entries []string
	for _, text := range texts {
		key, auth, _ := strings.Cut(text, "=")
		entries = append(entries, fmt.Sprintf(`%q:{"auth":%q}`, key, base64.StdEncoding.EncodeToString([]byte(auth))))
	}
	return dockerConfig(t, host, strings.Join(entries, ","))
}

func dockerConfig(t *testing.T, host, auths string) func(*distribution.Options) {
	t.Helper()
	set, err := credentials.Read("kubernetes.io/dockerconfigjson", map[string][]byte{".dockerconfigjson": []byte(`{"auths":{` + auths + `}}`)}, host)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *distribution.Options) { o.Credentials = set }
}

// said gives the reason of an error and its detail.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
