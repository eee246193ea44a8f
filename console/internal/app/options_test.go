// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	usual := []string{"--url=https://console.example.com", "--session-key-file=key"}
	for name, tc := range map[string]struct {
		flags []string
		want  string // "" where the flags are right
	}{
		"Usual":            {nil, ""},
		"OnThisMachine":    {[]string{"--url=http://127.0.0.1:8123"}, ""},
		"WithSlash":        {[]string{"--url=https://console.example.com/"}, ""},
		"Provider":         {[]string{"--oidc-issuer=https://id.example.com", "--oidc-client-id=console"}, ""},
		"Proxy":            {[]string{"--sign-in-with-tokens=false", "--proxy-addresses=10.0.0.0/24,fd00::/64", "--proxy-groups=a"}, ""},
		"NoAddress":        {[]string{"--url="}, "--url"},
		"Plain":            {[]string{"--url=http://console.example.com"}, "must begin with https://"},
		"Path":             {[]string{"--url=https://example.com/console"}, "without a path"},
		"NoKey":            {[]string{"--tls-cert-file=cert"}, "are given together"},
		"NoClient":         {[]string{"--oidc-issuer=https://id.example.com"}, "are given together"},
		"PlainAPIServer":   {[]string{"--api-server=http://10.0.0.1"}, "--api-server"},
		"Nobody":           {[]string{"--sign-in-with-tokens=false"}, "nobody could sign in"},
		"ProxyAndTokens":   {[]string{"--proxy-addresses=10.0.0.0/24"}, "all people in, or none"},
		"ProxyAndProvider": {[]string{"--sign-in-with-tokens=false", "--proxy-addresses=10.0.0.0/24", "--oidc-issuer=https://id.example.com", "--oidc-client-id=x"}, "all people in, or none"},
		"Everybody":        {[]string{"--sign-in-with-tokens=false", "--proxy-addresses=0.0.0.0/0"}, "is everybody"},
		"NoNetwork":        {[]string{"--sign-in-with-tokens=false", "--proxy-addresses=ingress"}, "must be a network"},
		"GroupsOnly":       {[]string{"--proxy-groups=a"}, "need --proxy-addresses"},
		"ClustersGroup":    {[]string{"--sign-in-with-tokens=false", "--proxy-addresses=10.0.0.0/24", "--proxy-groups=system:masters"}, "of the cluster's own"},
	} {
		t.Run(name, func(t *testing.T) {
			var o Options
			flags := flag.NewFlagSet("console", flag.ContinueOnError)
			o.BindFlags(flags, func(name string) string {
				return map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}[name]
			})
			if err := flags.Parse(append(usual, tc.flags...)); err != nil {
				t.Fatal(err)
			}
			if err := o.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
