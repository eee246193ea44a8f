// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/pages"
	"github.com/scanyard/scanyard/console/internal/session"
	"github.com/scanyard/scanyard/console/internal/web"
)

// Options are how a console of one's own is served: on this machine, with the rights of a kubeconfig.
type Options struct {
	// Config reaches the API server with the credentials of the user.
	Config *rest.Config
	// Namespace is where the user works, for one who may not look everywhere.
	Namespace string
	Version   string
	// Address is where to listen: a loopback address, with port 0 for any.
	Address string
	Now     func() time.Time
	// Failed is told of errors that the user has not caused.
	Failed func(error)
}

// Local is a console of one's own.
type Local struct {
	// URL opens the console, once.
	URL string

	listener net.Listener
	server   *http.Server
}

// headerPatience is how long a browser may take to ask.
const headerPatience = 10 * time.Second

// Listen begins to listen. Nobody is served before Serve.
func Listen(ctx context.Context, o Options) (*Local, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q must be HOST:PORT, such as 127.0.0.1:8123", o.Address)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("address %q is not of this machine alone: everybody who reaches it would have your rights; give 127.0.0.1 or [::1]", o.Address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	local, err := newLocal(listener, o)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return local, nil
}

func newLocal(listener net.Listener, o Options) (*Local, error) {
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("address %s has no port", listener.Addr())
	}
	c, err := cluster.New(cluster.Options{Config: o.Config, Own: true, Namespace: o.Namespace, Now: o.Now})
	if err != nil {
		return nil, err
	}
	key := make([]byte, session.KeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	port := strconv.Itoa(address.Port)
	keeper, err := session.NewKeeper("scanyard-console-"+port, [][]byte{key}, false, o.Now)
	if err != nil {
		return nil, err
	}
	code := session.NewCode(o.Now)
	app, err := pages.New(web.Options{
		Sessions: keeper, As: c.As, Code: code, Version: o.Version, Now: o.Now,
		Guard:  &session.Guard{Hosts: []string{address.String(), "localhost:" + port}},
		Failed: func(_ *http.Request, err error) { o.Failed(err) },
	})
	if err != nil {
		return nil, err
	}
	return &Local{
		URL: "http://" + address.String() + "/login?code=" + code.Text(), listener: listener,
		server: &http.Server{Handler: app, ReadHeaderTimeout: headerPatience},
	}, nil
}

// shutdownPatience is how long requests may take after the end.
const shutdownPatience = 2 * time.Second

// Serve serves until the context ends.
func (l *Local) Serve(ctx context.Context) error {
	l.server.BaseContext = func(net.Listener) context.Context { return ctx }
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
		defer cancel()
		stopped <- l.server.Shutdown(last)
	})
	defer stop()
	if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
