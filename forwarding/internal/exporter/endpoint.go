// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
)

// streamsEnd is what streams have to end; what is not acknowledged by then is sent again.
const streamsEnd = 2 * time.Second

// maxConnectionAge ends connections, so that senders show their certificates again.
const maxConnectionAge = 30 * time.Minute

// endpoint is an intake by network: where it listens and whom it lets in.
type endpoint struct {
	name     string // of the flags: grpc, audit
	listen   string
	files    trust.ServerFiles
	tokens   string
	insecure bool
}

func (e *endpoint) bind(set *pflag.FlagSet, name, what string) {
	e.name = name
	set.StringVar(&e.listen, name+"-listen", "", "address of "+what)
	set.StringVar(&e.files.Certificate, name+"-tls-cert", "", "file with the certificate; it is read again when it changes")
	set.StringVar(&e.files.Key, name+"-tls-key", "", "file with the private key")
	set.StringVar(&e.files.ClientCA, name+"-client-ca", "", "file with the authorities of clients; each client then needs a certificate")
	set.StringVar(&e.tokens, name+"-tokens", "", "file with TOKEN,SUBJECT,TENANT lines, read again every second; each call then needs a token")
	set.BoolVar(&e.insecure, name+"-insecure", false, "plain text")
}

func (e *endpoint) check() error {
	tls := e.files.Certificate != "" || e.files.Key != ""
	switch {
	case e.listen == "" && (tls || e.files.ClientCA != "" || e.tokens != "" || e.insecure):
		return usage("--%s-listen is required where other flags of it are given", e.name)
	case e.listen == "":
		return nil
	case tls && (e.files.Certificate == "" || e.files.Key == ""):
		return usage("--%s-tls-cert and --%s-tls-key belong together: give both", e.name, e.name)
	case tls && e.insecure:
		return usage("--%s-insecure is plain text: give --%s-tls-cert and --%s-tls-key, or this one", e.name, e.name, e.name)
	case !tls && !e.insecure:
		return usage("--%s-listen would take records in plain text: give --%s-tls-cert and --%s-tls-key, or --%s-insecure where that is meant",
			e.name, e.name, e.name, e.name)
	case e.files.ClientCA != "" && !tls:
		return usage("--%s-client-ca needs TLS: give --%s-tls-cert and --%s-tls-key as well", e.name, e.name, e.name)
	}
	if _, _, err := net.SplitHostPort(e.listen); err != nil {
		return usage("--%s-listen: %w", e.name, err)
	}
	return nil
}

// server gives TLS by the endpoint's files; nil: plain text.
func (e *endpoint) server(now func() time.Time) (*trust.Server, error) {
	if e.insecure {
		return nil, nil // plain text
	}
	server, err := trust.NewServer(e.files, now)
	if err != nil {
		return nil, usage("--%s-tls-cert, --%s-tls-key, --%s-client-ca: %w", e.name, e.name, e.name, err)
	}
	return server, nil
}

// callers reads the endpoint's tokens, and goes on reading them until ctx ends.
func (p *program) callers(ctx context.Context, e *endpoint) (intake.Callers, error) {
	callers := intake.Callers{Tenant: p.s.tenant}
	if e.tokens == "" {
		return callers, nil
	}
	tokens, err := intake.OpenTokens(e.tokens, p.log)
	if err != nil {
		return callers, usage("--%s-tokens: %w", e.name, err)
	}
	callers.Tokens = tokens
	p.takers.Go(func() { tokens.Watch(ctx) })
	return callers, nil
}

// listenOn opens the endpoint's address, which stays the same when the program is started anew inside.
func (e *endpoint) listenOn(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.listen)
	if err != nil {
		return nil, usage("--%s-listen: %w", e.name, err)
	}
	e.listen = listener.Addr().String()
	return listener, nil
}

// open makes an endpoint ready: who may call, TLS or nil for plain text, and the address. Nothing is listened on where one is wrong.
func (p *program) open(ctx context.Context, e *endpoint) (intake.Callers, *trust.Server, net.Listener, error) {
	callers, err := p.callers(ctx, e)
	if err != nil {
		return callers, nil, nil, err
	}
	tls, err := e.server(p.o.Now)
	if err != nil {
		return callers, nil, nil, err
	}
	listener, err := e.listenOn(ctx)
	return callers, tls, listener, err
}

// serveGRPC takes records by gRPC until ctx ends.
func (p *program) serveGRPC(ctx context.Context) error {
	e := &p.s.grpc
	if e.listen == "" {
		return nil
	}
	callers, tls, listener, err := p.open(ctx, e)
	if err != nil {
		return err
	}
	keeper := &intake.Keeper{Options: p.intakeOptions(), Callers: callers, ClusterID: p.s.clusterID}
	if err := keeper.Remember(); err != nil {
		return errors.Join(err, listener.Close())
	}
	options := receiver.Options{Keeper: keeper, Identify: keeper.Identify, Version: p.o.Version, MaxConnectionAge: maxConnectionAge, Log: p.log}
	if tls != nil {
		options.Credentials = tls.Credentials()
	}
	service := receiver.New(options)
	server := service.Server()
	p.takers.Go(func() {
		if err := server.Serve(listener); err != nil {
			p.failed <- fmt.Errorf("gRPC: %w", err)
		}
	})
	p.takers.Go(func() {
		<-ctx.Done()
		service.Drain() // what came in is acknowledged, then the streams end
		cut := time.AfterFunc(streamsEnd, server.Stop)
		defer cut.Stop()
		server.GracefulStop()
	})
	return nil
}

// serveAudit takes what the audit webhook of a kube-apiserver posts, until ctx ends.
func (p *program) serveAudit(ctx context.Context) error {
	e := &p.s.audit
	if e.listen == "" {
		return nil
	}
	callers, tls, listener, err := p.open(ctx, e)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: &intake.Audit{Options: p.intakeOptions(), Callers: callers}, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}
	if tls != nil {
		server.TLSConfig = tls.HTTP()
	}
	p.serveHTTP(ctx, listener, server)
	return nil
}
