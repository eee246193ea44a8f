// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Endpoint is a place that a sink dials.
// +kubebuilder:object:generate=false
type Endpoint struct {
	// Scheme as it is written; "" where there is none.
	Scheme string
	// Host is a name or an address, without brackets.
	Host string
	Port int
}

// Address is host:port.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// IsPlain says whether the scheme asks for plain text, or leaves that to tls.insecure.
func (e Endpoint) IsPlain(tls *TLS) bool {
	if e.Scheme == "" {
		return tls != nil && tls.Insecure
	}
	return slices.Contains(plainSchemes, e.Scheme)
}

var plainSchemes = []string{"http", "grpc", "nats"}

// endpointRule says what an endpoint of a provider may look like.
// +kubebuilder:object:generate=false
type endpointRule struct {
	schemes []string
	// bare lets host:port stand without a scheme.
	bare bool
	// path lets a path and a query stand.
	path bool
	port int
	// example completes "such as".
	example string
}

const example = "https://compliance.example.com:443"

// Endpoints are the places that a sink dials. It is an error where one cannot be dialled; the text has no user info.
func (s *Sink) Endpoints() ([]Endpoint, error) {
	texts, rule := s.endpointTexts()
	all := make([]Endpoint, 0, len(texts))
	for _, text := range texts {
		e, err := parseEndpoint(text, rule)
		if err != nil {
			return nil, fmt.Errorf("%q %w", withoutUserInfo(text), err)
		}
		all = append(all, e)
	}
	return all, nil
}

// endpointTexts are the endpoints as they are written, and what they may look like. A file has none.
func (s *Sink) endpointTexts() ([]string, endpointRule) {
	switch {
	case s.Provider == ProviderGRPC && s.GRPC != nil:
		return []string{s.GRPC.Endpoint}, endpointRule{schemes: []string{"https", "grpcs", "http", "grpc"}, bare: true, port: 443, example: example}
	case s.Provider == ProviderHTTP && s.HTTP != nil:
		return []string{s.HTTP.URL}, endpointRule{schemes: []string{"https", "http"}, path: true, port: 443, example: example + "/results"}
	case s.Provider == ProviderKafka && s.Kafka != nil:
		return s.Kafka.Brokers, endpointRule{bare: true, example: "kafka.example.com:9093"}
	case s.Provider == ProviderNATS && s.NATS != nil:
		return []string{s.NATS.URL}, endpointRule{schemes: []string{"tls", "nats"}, port: 4222, example: "tls://nats.example.com:4222"}
	case s.Provider == ProviderOTLP && s.OTLP != nil:
		return []string{s.OTLP.Endpoint}, endpointRule{
			schemes: []string{"https", "grpcs", "http", "grpc"}, bare: true, path: s.OTLP.Protocol == OTLPHTTP, port: 443, example: example,
		}
	case s.Provider == ProviderS3 && s.S3 != nil:
		return []string{s.S3.Endpoint}, endpointRule{schemes: []string{"https", "http"}, port: 443, example: example}
	default:
		return nil, endpointRule{}
	}
}

func parseEndpoint(text string, rule endpointRule) (Endpoint, error) {
	such := "; write it such as " + rule.example
	if !strings.Contains(text, "://") {
		if !rule.bare {
			return Endpoint{}, errors.New("has no scheme" + such)
		}
		return hostPort(text, 0, such)
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error repeats the text, user info and all.
		return Endpoint{}, errors.New("is not a URL" + such)
	}
	switch {
	case !slices.Contains(rule.schemes, u.Scheme):
		return Endpoint{}, fmt.Errorf("has scheme %q, which is none of %s%s", u.Scheme, strings.Join(rule.schemes, ", "), such)
	case u.User != nil:
		return Endpoint{}, errors.New("has user info, which authentication is for: remove it" + such)
	case !rule.path && (u.Path != "" || u.RawQuery != "" || u.ForceQuery):
		return Endpoint{}, errors.New("has a path or a query: remove it" + such)
	case u.Fragment != "" || strings.Contains(text, "#"):
		return Endpoint{}, errors.New("has a fragment: remove it" + such)
	}
	port := rule.port
	if u.Scheme == "http" && rule.path {
		port = 80
	}
	e, err := hostPort(u.Host, port, such)
	e.Scheme = u.Scheme
	return e, err
}

// hostPort reads host[:port]; the port may be left out where there is another one for that case.
func hostPort(text string, absent int, such string) (Endpoint, error) {
	host, port := text, ""
	if absent == 0 || strings.LastIndex(text, ":") > strings.LastIndex(text, "]") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return Endpoint{}, errors.New("is not host:port" + such)
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	e := Endpoint{Host: host, Port: absent}
	if port != "" || absent == 0 {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Endpoint{}, fmt.Errorf("has port %q, which is none of 1 to 65535%s", port, such)
		}
		e.Port = int(n)
	}
	if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(strings.TrimSuffix(strings.ToLower(host), "."))) > 0 {
		return Endpoint{}, errors.New("has no host that is a name or an address" + such)
	}
	return e, nil
}

// withoutUserInfo is an endpoint as it may be shown: whatever stands before the last @ of its authority may be a password.
func withoutUserInfo(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		return scheme + authority[i+1:] + tail
	}
	// A password may have a slash in it, and then be no user info to a parser of URLs.
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		return scheme + rest[i+1:]
	}
	return text
}
