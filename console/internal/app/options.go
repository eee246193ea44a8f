// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Options are what the flags say.
type Options struct {
	// URL is how people reach the console.
	URL string
	// Bind and Status are where to listen: for people, and for the cluster.
	Bind, Status string
	// Certificate and Key are files for TLS of the pod; without them what stands before the console has it.
	Certificate, Key string
	// SessionKeys are files; the first seals, all open.
	SessionKeys list

	// APIServer and its CA, a file; Token is a file with the credentials of the console, which it has for proxies only.
	APIServer, CA, Token string
	StorageHosts         list

	Tokens bool
	OIDC   oidcOptions
	Proxy  proxyOptions
}

type oidcOptions struct {
	Issuer, ClientID, ClientSecret, CA string
	Scopes                             list
}

type proxyOptions struct {
	Addresses    list
	User, Groups string
	// Allowed are the groups that count, Users whom the API server is asked as by name.
	Allowed, Users list
}

// list is a flag with several values, by commas or given again.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds values.
func (l *list) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*l = append(*l, part)
		}
	}
	return nil
}

const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount/"

// BindFlags defines the flags.
func (o *Options) BindFlags(flags *flag.FlagSet, environment func(string) string) {
	server := ""
	if host := environment("KUBERNETES_SERVICE_HOST"); host != "" {
		server = "https://" + net.JoinHostPort(host, environment("KUBERNETES_SERVICE_PORT"))
	}
	flags.StringVar(&o.URL, "url", "", "`address` that people reach the console by, such as https://console.example.com")
	flags.StringVar(&o.Bind, "bind-address", ":8080", "where the pages are served, as `host:port`")
	flags.StringVar(&o.Status, "status-bind-address", ":8081", "where /metrics, /healthz and /readyz are served, as `host:port`")
	flags.StringVar(&o.Certificate, "tls-cert-file", "", "`file` with a certificate: the pages are served by HTTPS")
	flags.StringVar(&o.Key, "tls-key-file", "", "`file` with the key of the certificate")
	flags.Var(&o.SessionKeys, "session-key-file", "`file` with 32 bytes that sessions are sealed with; give it again for the key before, whose sessions go on")
	flags.StringVar(&o.APIServer, "api-server", server, "`address` of the API server")
	flags.StringVar(&o.CA, "api-server-ca-file", accountFolder+"ca.crt", "`file` with the authority of the API server's certificate")
	flags.Var(&o.StorageHosts, "storage-hosts", "`hosts`, with ports, of the object storage: links of Scans to others are not followed")
	flags.BoolVar(&o.Tokens, "sign-in-with-tokens", true, "let people sign in with a token that the API server takes")
	flags.StringVar(&o.OIDC.Issuer, "oidc-issuer", "", "`address` of an OIDC provider whose tokens the API server takes")
	flags.StringVar(&o.OIDC.ClientID, "oidc-client-id", "", "`name` of the console at the provider, and audience of its tokens")
	flags.StringVar(&o.OIDC.ClientSecret, "oidc-client-secret-file", "", "`file` with the console's secret at the provider; none for a public client")
	flags.StringVar(&o.OIDC.CA, "oidc-ca-file", "", "`file` with the authority of the provider's certificate; none: those of the system")
	flags.Var(&o.OIDC.Scopes, "oidc-scopes", "`scopes` to ask for beside openid; none: email and profile")
	flags.Var(&o.Proxy.Addresses, "proxy-addresses", "`networks` of a proxy that signs people in, as 10.0.0.0/24: its headers say who somebody is")
	flags.StringVar(&o.Proxy.User, "proxy-user-header", "X-Forwarded-User", "`header` with the name")
	flags.StringVar(&o.Proxy.Groups, "proxy-groups-header", "X-Forwarded-Groups", "`header` with the groups, by commas")
	flags.Var(&o.Proxy.Allowed, "proxy-groups", "`groups` that count: the console may impersonate them")
	flags.Var(&o.Proxy.Users, "proxy-users", "`names` whom the API server is asked as; it is asked as scanyard-console for others")
	flags.StringVar(&o.Token, "service-account-token-file", accountFolder+"token", "`file` with the credentials to impersonate with")
}

// ByProxy says whether a proxy signs people in.
func (o *Options) ByProxy() bool { return len(o.Proxy.Addresses) > 0 }

// Validate says what is wrong with the flags.
func (o *Options) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	address, err := url.Parse(o.URL)
	if err != nil || address.Host == "" || strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.User != nil {
		wrong("--url %q must be an address without a path, such as https://console.example.com", o.URL)
	} else if address.Scheme != "https" && (address.Scheme != "http" || !isLoopback(address.Hostname())) {
		wrong("--url %q must begin with https://: tokens and cookies would be readable on the way", o.URL)
	}
	if (o.Certificate == "") != (o.Key == "") {
		wrong("--tls-cert-file and --tls-key-file are given together")
	}
	if len(o.SessionKeys) == 0 {
		wrong("--session-key-file is missing")
	}
	if server, err := url.Parse(o.APIServer); err != nil || server.Scheme != "https" || server.Host == "" {
		wrong("--api-server %q must be an address that begins with https://", o.APIServer)
	}
	if (o.OIDC.Issuer == "") != (o.OIDC.ClientID == "") {
		wrong("--oidc-issuer and --oidc-client-id are given together")
	}
	if _, err := o.networks(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case o.ByProxy() && (o.Tokens || o.OIDC.Issuer != ""):
		wrong("--proxy-addresses needs --sign-in-with-tokens=false and no --oidc-issuer: a proxy signs all people in, or none")
	case !o.ByProxy() && (len(o.Proxy.Allowed) > 0 || len(o.Proxy.Users) > 0):
		wrong("--proxy-groups and --proxy-users need --proxy-addresses")
	case !o.ByProxy() && !o.Tokens && o.OIDC.Issuer == "":
		wrong("nobody could sign in: give --oidc-issuer, --sign-in-with-tokens or --proxy-addresses")
	}
	for _, name := range append(o.Proxy.Allowed, o.Proxy.Users...) {
		if strings.HasPrefix(name, "system:") {
			wrong("%s is a name of the cluster's own, and nobody is to be asked as that", name)
		}
	}
	return errors.Join(errs...)
}

// networks are where a proxy comes from. One that has everybody in it trusts everybody.
func (o *Options) networks() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range o.Proxy.Addresses {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--proxy-addresses: %q must be a network, such as 10.0.0.0/24", text)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("--proxy-addresses: %q is everybody, who could be anybody then", text)
		}
		all = append(all, network)
	}
	return all, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
