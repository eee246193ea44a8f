// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

const (
	// finishWithin is how long requests in work may take once the server is to stop.
	finishWithin = 20 * time.Second
	// endWatchesEvery ends the watches that began while the others were being ended.
	endWatchesEvery = 200 * time.Millisecond
	headerTimeout   = 32 * time.Second
)

// Run serves until its context ends, and then stops in order: it is no longer ready, ends the watches, finishes what is in
// work. An error is a reason to end the process with.
func Run(ctx context.Context, options Options) error {
	b, err := build(&options)
	if err != nil {
		return errors.Join(err, options.Listener.Close())
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	for _, task := range b.tasks {
		tasks.Go(func() {
			if err := task.Run(running); err != nil && running.Err() == nil {
				cancel(fmt.Errorf("%s: %w", task.Name, err))
			}
		})
	}
	if err := b.start(running); err != nil {
		return errors.Join(fmt.Errorf("start the server: %w", err), options.Listener.Close())
	}
	err = serve(ctx, running, b, &options)
	cancel(nil)
	b.finish()
	return err
}

// serve answers until ctx or running ends.
func serve(ctx, running context.Context, b *built, options *Options) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(options.Certificate != nil)
	server := &http.Server{
		Handler: b.handler, ReadHeaderTimeout: headerTimeout, Protocols: protocols, MaxHeaderBytes: 1 << 20,
		ErrorLog: log.New(klogWriter{}, "", 0), BaseContext: func(net.Listener) context.Context { return running },
	}
	listener, scheme := options.Listener, "http"
	if options.Certificate != nil {
		listener, scheme = tls.NewListener(listener, newTLS(options.Certificate)), "https"
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if options.Ready != nil {
		options.Ready(scheme + "://" + options.Listener.Addr().String())
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-running.Done():
		return errors.Join(context.Cause(running), server.Close())
	case <-ctx.Done():
	}
	return stop(context.WithoutCancel(ctx), b, server, options)
}

// stop ends the server in order.
func stop(ctx context.Context, b *built, server *http.Server, options *Options) error {
	b.health.stopping.Store(true)
	ending, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()
	finished := make(chan error, 1)
	go func() { finished <- server.Shutdown(ending) }()
	ticker := time.NewTicker(endWatchesEvery)
	defer ticker.Stop()
	for {
		options.Store.EndWatches()
		select {
		case err := <-finished:
			if errors.Is(err, context.DeadlineExceeded) {
				klog.Info("Requests in work were not finished in time")
				return server.Close()
			}
			return err
		case <-ticker.C:
		}
	}
}

// newTLS takes the certificate from the provider at each handshake. Client certificates are verified by who authenticates.
func newTLS(provider dynamiccertificates.CertKeyContentProvider) *tls.Config {
	current := &certificate{provider: provider}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.get() },
	}
}

// certificate is the certificate of a provider, read anew where its content has changed.
type certificate struct {
	provider dynamiccertificates.CertKeyContentProvider

	mu        sync.Mutex
	cert, key []byte
	parsed    *tls.Certificate
}

func (c *certificate) get() (*tls.Certificate, error) {
	cert, key := c.provider.CurrentCertKeyContent()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed != nil && bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return c.parsed, nil
	}
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s: %w", c.provider.Name(), err)
	}
	c.cert, c.key, c.parsed = cert, key, &parsed
	return c.parsed, nil
}

// klogWriter logs what the HTTP server says of its connections.
type klogWriter struct{}

var _ io.Writer = klogWriter{}

// Write implements io.Writer.
func (klogWriter) Write(line []byte) (int, error) {
	klog.V(2).InfoS("HTTP", "message", string(bytes.TrimSpace(line)))
	return len(line), nil
}
