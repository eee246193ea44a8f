// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/pages"
	"github.com/scanyard/scanyard/console/internal/session"
	"github.com/scanyard/scanyard/console/internal/signin"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/podkit/redact"
)

// Environment is what a process has from outside.
type Environment struct {
	Version string
	Now     func() time.Time
	Log     *slog.Logger
}

// Run serves the console until the context ends.
func Run(ctx context.Context, o *Options, e Environment) error {
	figures := newFigures()
	handler, err := o.pages(e, figures)
	if err != nil {
		return err
	}
	people := server(handler)
	if o.Certificate != "" {
		pair := &certificate{cert: o.Certificate, key: o.Key}
		if _, err := pair.current(nil); err != nil {
			return err
		}
		people.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.current}
	}
	status := server(figures.status())
	var config net.ListenConfig
	pagesListener, err := config.Listen(ctx, "tcp", o.Bind)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	statusListener, err := config.Listen(ctx, "tcp", o.Status)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), pagesListener.Close())
	}
	e.Log.Info("The console is ready.", "url", o.URL, "address", pagesListener.Addr().String())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	people.BaseContext = func(net.Listener) context.Context { return ctx } // live parts end with the console
	ended := make(chan error, 2)
	go func() {
		if people.TLSConfig != nil {
			ended <- people.ServeTLS(pagesListener, "", "")
			return
		}
		ended <- people.Serve(pagesListener)
	}()
	go func() { ended <- status.Serve(statusListener) }()
	select {
	case <-ctx.Done():
	case err := <-ended:
		cancel(err)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
	defer stop()
	err = errors.Join(people.Shutdown(last), status.Shutdown(last))
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

const (
	headerPatience   = 10 * time.Second
	bodyPatience     = time.Minute
	idlePatience     = 2 * time.Minute
	shutdownPatience = 10 * time.Second
	maxHeader        = 32 << 10
)

// server has no bound for answers: live parts and exports take as long as they are read.
func server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerPatience, ReadTimeout: bodyPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader}
}

// pages are the console as the flags have it.
func (o *Options) pages(e Environment, figures *figures) (http.Handler, error) {
	address, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	secure := address.Scheme == "https"
	keeper, err := o.keeper(secure, e.Now)
	if err != nil {
		return nil, err
	}
	// The API server is near: to compress its answers would take more time than to send them.
	config := &rest.Config{Host: o.APIServer, TLSClientConfig: rest.TLSClientConfig{CAFile: o.CA}, DisableCompression: true}
	if o.ByProxy() {
		config.BearerTokenFile = o.Token
	}
	c, err := cluster.New(cluster.Options{Config: config, StorageHosts: o.StorageHosts, Now: e.Now})
	if err != nil {
		return nil, err
	}
	all := web.Options{
		Sessions: keeper, Guard: &session.Guard{Hosts: []string{address.Host}}, As: c.As, Check: c.Check, Tokens: o.Tokens, Version: e.Version, Now: e.Now,
		SignedIn: figures.signedIn, Live: figures.live,
		Failed: func(r *http.Request, err error) {
			e.Log.Error("A page has failed.", "method", r.Method, "path", r.URL.Path, "error", redact.Text(err.Error()))
		},
	}
	if o.ByProxy() {
		networks, err := o.networks()
		if err != nil {
			return nil, err
		}
		all.Proxy = (&signin.Proxy{
			Addresses: networks, UserHeader: o.Proxy.User, GroupsHeader: o.Proxy.Groups, Groups: o.Proxy.Allowed, Users: o.Proxy.Users,
		}).Who
	}
	if o.OIDC.Issuer != "" {
		if all.Provider, err = o.provider(address, e.Now); err != nil {
			return nil, err
		}
	}
	app, err := pages.New(all)
	if err != nil {
		return nil, err
	}
	return figures.watch(app, e.Now), nil
}

// keeper reads the keys. A cookie that browsers send over TLS only says so in its name, so that no other site of the domain can set it.
func (o *Options) keeper(secure bool, now func() time.Time) (*session.Keeper, error) {
	var keys [][]byte
	for _, file := range o.SessionKeys {
		key, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read session key: %w", err)
		}
		keys = append(keys, key)
	}
	name := "scanyard-console"
	if secure {
		name = "__Host-" + name
	}
	return session.NewKeeper(name, keys, secure, now)
}

// providerPatience is how long the provider may take for one answer.
const providerPatience = 10 * time.Second

func (o *Options) provider(address *url.URL, now func() time.Time) (*signin.Provider, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: idlePatience}
	if o.OIDC.CA != "" {
		bundle, err := os.ReadFile(o.OIDC.CA)
		if err != nil {
			return nil, fmt.Errorf("read the authority of the provider: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("read the authority of the provider: %s holds no PEM certificate", o.OIDC.CA)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	var secret []byte
	if o.OIDC.ClientSecret != "" {
		var err error
		if secret, err = os.ReadFile(o.OIDC.ClientSecret); err != nil {
			return nil, fmt.Errorf("read the secret of the provider: %w", err)
		}
	}
	scopes := []string(o.OIDC.Scopes)
	if len(scopes) == 0 {
		scopes = []string{"email", "profile"}
	}
	return signin.NewProvider(signin.ProviderOptions{
		Issuer: o.OIDC.Issuer, ClientID: o.OIDC.ClientID, ClientSecret: string(bytes.TrimSpace(secret)), Scopes: scopes,
		Redirect: address.Scheme + "://" + address.Host + "/login/callback", Client: &http.Client{Transport: transport, Timeout: providerPatience}, Now: now,
	}), nil
}
