// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config describes one sink, whether it comes from a flag, a file or a setting.
type Config struct {
	// Name is unique in the program.
	Name string
	// URL is where the far end is; its scheme decides which sink it is.
	URL *url.URL
	// Options are further keys of the sink, such as format or brokers.
	Options map[string]string
	// Insecure allows plain text.
	Insecure bool
	// ServerName is the name to expect in the certificate of the far end; empty: the host of URL.
	ServerName string
	// TLS12 allows version 1.2 of TLS.
	TLS12 bool
	// Secrets gives what the sink proves itself by.
	Secrets Secrets
	// Timeout bounds the silence on one request or between acks.
	Timeout time.Duration
	// ClusterID and Version name the sender.
	ClusterID, Version string
	// Dial replaces the dialer, where a sink may not dial every address; nil: any.
	Dial DialControl
	// Expires is told when the certificates of a handshake end: "client" is ours, "server" the far end's. Nil: nobody asks.
	Expires func(which string, notAfter time.Time)
}

// DialControl is called with each address after its name is resolved and before it is dialled; an error forbids it.
type DialControl func(network, address string) error

// Secrets gives the secrets of a sink as they are now. It is asked at each handshake and after each refusal, and must not block for long.
type Secrets interface {
	Read(ctx context.Context) (Material, error)
}

// Material is what a sink trusts and proves itself by. Empty fields are not configured.
type Material struct {
	// Roots is a bundle of PEM certificates: the only roots when set.
	Roots []byte
	// Certificate and Key are the client's, in PEM.
	Certificate, Key []byte
	// Token is sent as bearer token.
	Token Secret
	// Username and Password are for basic authentication, SASL and access keys.
	Username string
	Password Secret
	// Further holds other secrets by their key, such as signing keys.
	Further map[string]Secret
}

// Secret is a text that is never printed.
type Secret string

// String hides the secret.
func (Secret) String() string { return "REDACTED" }

// GoString hides the secret.
func (Secret) GoString() string { return "REDACTED" }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("REDACTED"), nil }

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Factory makes a sink. An error names the part of the configuration that is wrong and the remedy.
type Factory func(Config) (Sink, error)

var factories struct {
	sync.Mutex
	byScheme map[string]Factory
}

// Register makes a sink known by the scheme of its URL. The last registration of a scheme counts.
func Register(scheme string, factory Factory) {
	factories.Lock()
	defer factories.Unlock()
	if factories.byScheme == nil {
		factories.byScheme = map[string]Factory{}
	}
	factories.byScheme[scheme] = factory
}

// Schemes tells what is registered, sorted.
func Schemes() []string {
	factories.Lock()
	defer factories.Unlock()
	names := make([]string, 0, len(factories.byScheme))
	for name := range factories.byScheme {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Open makes the sink that the scheme of the configuration names.
func Open(config Config) (Sink, error) {
	factories.Lock()
	factory := factories.byScheme[config.URL.Scheme]
	factories.Unlock()
	if factory == nil {
		return nil, fmt.Errorf("sink %s: the scheme %q is not known: use one of %s", config.Name, config.URL.Scheme, strings.Join(Schemes(), ", "))
	}
	return factory(config)
}
