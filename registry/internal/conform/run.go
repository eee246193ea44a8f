// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
)

// Options say which adapter is held to the protocol.
type Options struct {
	Path string
	Args []string
	// Database is a file for db-update; "": what needs a database is skipped.
	Database string
	Out      io.Writer
	// Only are names of checks; none: all.
	Only []string
	// Patience is how long an answer may take; 0: a minute.
	Patience time.Duration
}

const directory = 0o700

// bench is what a check has.
type bench struct {
	options Options
	said    protocol.Description
	// root is the check's directory: work and cache are the adapter's, and nothing else may change.
	root, work, cache string
	proxy             *proxy.Server
	sessions          []*session
	// stranger is an address that nobody may connect to, strangers counts who did.
	stranger  string
	strangers *atomic.Int64
}

// check is one rule of the protocol.
type check struct {
	name string
	// needs tells why the check does not concern an adapter; "": it does.
	needs func(b *bench) string
	run   func(ctx context.Context, b *bench) error
}

// Names are those of all checks.
func Names() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// checks are made once: to make hostile images takes seconds.
var checks = sync.OnceValue(func() []check {
	return slices.Concat(protocolChecks, sbomChecks, hostileChecks(), cacheChecks, databaseChecks)
})

// Run prints a line for each check, and tells whether the adapter passed. The error is a machine that cannot check.
func Run(ctx context.Context, o Options) (passed bool, err error) {
	if o.Path, err = absolute(o.Path); err != nil {
		return false, err
	}
	if o.Database != "" {
		if o.Database, err = filepath.Abs(o.Database); err != nil {
			return false, fmt.Errorf("find database: %w", err)
		}
	}
	if o.Patience == 0 {
		o.Patience = patience
	}
	all := slices.DeleteFunc(slices.Clone(checks()), func(c check) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, c.name) })
	fmt.Fprintf(o.Out, "TAP version 14\n1..%d\n", len(all))
	said, describeErr := describe(ctx, o)
	passed = true
	for i, c := range all {
		skipped, err := one(ctx, o, said, describeErr, c)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(o.Out, "Bail out! the time is over")
			return false, ctx.Err()
		case err != nil:
			passed = false
			fmt.Fprintf(o.Out, "not ok %d - %s\n  ---\n  message: %q\n  ...\n", i+1, c.name, text.Line(err.Error()))
		case skipped != "":
			fmt.Fprintf(o.Out, "ok %d - %s # SKIP %s\n", i+1, c.name, skipped)
		default:
			fmt.Fprintf(o.Out, "ok %d - %s\n", i+1, c.name)
		}
	}
	return passed, nil
}

// describe asks what the adapter is, so that it is known what concerns it.
func describe(ctx context.Context, o Options) (said protocol.Description, err error) {
	b, err := newBench(ctx, o, said)
	if err != nil {
		return said, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	s, err := b.open()
	if err != nil {
		return said, err
	}
	return said, s.ask(protocol.Describe, struct{}{}, &said)
}

func one(ctx context.Context, o Options, said protocol.Description, unsaid error, c check) (skipped string, err error) {
	b, err := newBench(ctx, o, said)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	if c.needs != nil {
		if unsaid != nil {
			return "", fmt.Errorf("describe was not answered: %w", unsaid)
		}
		if reason := c.needs(b); reason != "" {
			return reason, nil
		}
	}
	return "", c.run(ctx, b)
}

func newBench(ctx context.Context, o Options, said protocol.Description) (*bench, error) {
	root, err := os.MkdirTemp("", "conform-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	b := &bench{options: o, said: said, root: root, work: filepath.Join(root, "a", "b", "work"), cache: filepath.Join(root, "cache"), strangers: &atomic.Int64{}}
	if err := errors.Join(os.MkdirAll(b.work, directory), os.MkdirAll(b.cache, directory)); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if b.proxy, err = proxy.Listen(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// listen opens the port of the stranger.
func (b *bench) listen(ctx context.Context) (func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	b.stranger = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			b.strangers.Add(1)
			_ = connection.Close() // nobody is answered
		}
	}()
	return func() {
		_ = l.Close() // it was only listened to
		<-done
	}, nil
}

// end removes what the check has made.
func (b *bench) end() error {
	for _, s := range b.sessions {
		s.kill()
	}
	err := errors.Join(b.proxy.Close(), os.RemoveAll(b.root))
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// outside lists what lies in the check's directory and is neither in work nor in cache.
func (b *bench) outside() ([]string, error) {
	var list []string
	err := filepath.WalkDir(b.root, func(path string, _ os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == b.work || path == b.cache:
			return filepath.SkipDir
		}
		list = append(list, strings.TrimPrefix(path, b.root))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look around: %w", err)
	}
	return list, nil
}
