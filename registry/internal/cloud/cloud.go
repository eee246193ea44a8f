// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/credentials"
)

const (
	// early is how long before their end credentials are fetched again.
	early = 5 * time.Minute
	// patience bounds one request, maxAnswer an answer.
	patience  = 30 * time.Second
	maxAnswer = 1 << 20
)

// hosts are the registries of a cloud.
var hosts = map[registryv1alpha1.Provider]*regexp.Regexp{
	registryv1alpha1.ProviderAWS:   ecrHost,
	registryv1alpha1.ProviderGCP:   regexp.MustCompile(`\A(?:[a-z0-9-]+\.)?gcr\.io\z|\A[a-z0-9-]+\.pkg\.dev\z`),
	registryv1alpha1.ProviderAzure: regexp.MustCompile(`\A[a-z0-9-]+(?:\.[a-z0-9-]+)?\.azurecr\.(?:io|cn|us)\z`),
}

// Identities are those of this process's pod. Several goroutines may use them at once.
type Identities struct {
	// Transport carries the requests; Env reads the variables by which a cloud tells a pod where its identity is.
	Transport http.RoundTripper
	Env       func(name string) string
	Now       func() time.Time

	mutex sync.Mutex
	kept  map[string]granted
}

// granted is a credential until it ends.
type granted struct {
	credential credentials.Credential
	until      time.Time
}

// Of are the identities of a process with an environment. Its requests take no proxy from there, and follow no redirect.
func Of(env func(name string) string, now func() time.Time) *Identities {
	dialer := net.Dialer{Timeout: patience}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: patience, ForceAttemptHTTP2: true}
	return &Identities{Transport: transport, Env: env, Now: now}
}

// Serves tells whether a host is a registry of a cloud.
func Serves(provider registryv1alpha1.Provider, host string) bool {
	pattern, known := hosts[provider]
	return known && pattern.MatchString(withoutPort(host))
}

func withoutPort(host string) string { return strings.TrimSuffix(strings.ToLower(host), ":443") }

// Credentials gives the credential for a registry.
func (i *Identities) Credentials(ctx context.Context, provider registryv1alpha1.Provider, host string) (credentials.Set, error) {
	if !Serves(provider, host) {
		return credentials.Set{}, fmt.Errorf("%s is not a registry of %s, so it does not get the identity of the workers", host, provider)
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := string(provider) + " " + withoutPort(host)
	if g, has := i.kept[key]; has && i.Now().Add(early).Before(g.until) {
		return credentials.Of(g.credential), nil
	}
	ask := map[registryv1alpha1.Provider]func(context.Context, string) (granted, error){
		registryv1alpha1.ProviderAWS: i.aws, registryv1alpha1.ProviderGCP: i.gcp, registryv1alpha1.ProviderAzure: i.azure,
	}[provider]
	g, err := ask(ctx, withoutPort(host))
	if err != nil {
		return credentials.Set{}, fmt.Errorf("identity of the workers in %s: %w", provider, err)
	}
	if i.kept == nil {
		i.kept = map[string]granted{}
	}
	i.kept[key] = g
	return credentials.Of(g.credential), nil
}

// env reads variables that all have to be there.
func (i *Identities) env(names ...string) ([]string, error) {
	values := make([]string, 0, len(names))
	for _, name := range names {
		value := i.Env(name)
		if value == "" {
			return nil, fmt.Errorf("the pod has none: there is no %s in its environment", name)
		}
		values = append(values, value)
	}
	return values, nil
}

// token reads a token that the kubelet has put into the pod. The kubelet renews it, so it is read each time.
func token(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read the pod's token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// do sends a request and gives the body of a good answer. What a cloud answers to a bad one is not told: it may hold what was sent.
func (i *Identities) do(r *http.Request) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	answer, err := i.Transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.URL.Host, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", r.URL.Host, answer.StatusCode)
	}
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", r.URL.Host, err)
	}
	return body, nil
}

// ask sends a request and reads the JSON that comes.
func (i *Identities) ask(r *http.Request, into any) error {
	body, err := i.do(r)
	if err != nil {
		return err
	}
	if json.Unmarshal(body, into) != nil {
		return fmt.Errorf("the answer of %s is not what was asked for", r.URL.Host)
	}
	return nil
}

func form(ctx context.Context, url string, values map[string][]string) (*http.Request, error) {
	encoded := encode(values)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r, nil
}
