// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
)

const (
	directory = 0o700
	// greeting is how long an adapter may take to describe itself.
	greeting = 5 * time.Second
	// leastFree is kept free on the disk when a database is fetched.
	leastFree = 64 << 20

	layersDir    = "layers"
	databasesDir = "databases"
	workDir      = "work"
)

// Adapter is one that the worker has.
type Adapter struct {
	Name, Path string
	Args       []string
}

// Options are what an Engine needs. Only those that say so may be missing.
type Options struct {
	// CacheDir is where analyses, databases and workdirs lie. What a dead worker left in its workdirs is removed.
	CacheDir string
	// CacheBytes bounds the analyses of layers; 0: no bound.
	CacheBytes int64
	Adapters   []Adapter
	// Launcher is the worker's own program.
	Launcher string
	Sandbox  sandbox.Mode
	// SBOMMemory and MatchMemory may be 0: 1 GiB.
	SBOMMemory, MatchMemory int64
	// Grown hears how the memory of an adapter's processes changes, all together. May be nil.
	Grown func(adapter string, bytes int64)
	Log   *slog.Logger
	Now   func() time.Time
}

// Engine runs the adapters of a worker. Several goroutines may use it at once.
type Engine struct {
	options  Options
	proxy    *proxy.Server
	adapters map[string]*running
}

// running is one adapter.
type running struct {
	adapter     Adapter
	description protocol.Description
	starter     *adapter.Starter
	// updating: one database is fetched at a time. It guards before, the one that was in use before the present one.
	updating sync.Mutex
	before   Database
	mutex    sync.Mutex
	number   int
	database Database
	keeper   *adapter.Keeper
}

// Open starts the adapters, and asks each what it is. Databases that are there already are used.
func Open(ctx context.Context, o Options) (e *Engine, err error) {
	if confined, err := o.Sandbox.Confines(); err != nil {
		return nil, err
	} else if !confined {
		o.Log.Warn("adapters are not confined: the kernel has no Landlock, or the sandbox is off", "sandbox", o.Sandbox)
	}
	if err := os.RemoveAll(filepath.Join(o.CacheDir, workDir)); err != nil {
		return nil, fmt.Errorf("remove old workdirs: %w", err)
	}
	for _, name := range []string{layersDir, databasesDir, workDir} {
		if err := os.MkdirAll(filepath.Join(o.CacheDir, name), directory); err != nil {
			return nil, fmt.Errorf("make cache: %w", err)
		}
	}
	server, err := proxy.Listen(ctx)
	if err != nil {
		return nil, err
	}
	e = &Engine{options: o, proxy: server, adapters: map[string]*running{}}
	for _, a := range o.Adapters {
		r, err := e.start(ctx, a)
		if r != nil {
			e.adapters[a.Name] = r
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("adapter %s: %w", a.Name, err), e.Close())
		}
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, a Adapter) (*running, error) {
	r := &running{adapter: a}
	var err error
	if r.starter, err = adapter.NewStarter(e.sbomOptions(a), e.path(workDir, a.Name, "sbom")); err != nil {
		return nil, err
	}
	session, err := r.starter.Take()
	if err != nil {
		return r, err
	}
	asked, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	err = session.Do(asked, protocol.Describe, "", struct{}{}, &r.description, nil)
	if err = errors.Join(err, session.End()); err != nil {
		return r, fmt.Errorf("describe: %w", err)
	}
	if !slices.Contains(r.description.Protocols, protocol.Version) {
		return r, fmt.Errorf("it speaks %v, and not %s", r.description.Protocols, protocol.Name)
	}
	return r, e.adopt(ctx, r)
}

// options are those that all processes of an adapter share.
func (e *Engine) processOptions(a Adapter, memory int64) adapter.Options {
	o := adapter.Options{
		Command: adapter.Command{Path: a.Path, Args: a.Args}, Launcher: e.options.Launcher, Sandbox: e.options.Sandbox, Memory: memory,
		Ports: []uint16{e.proxy.Port()},
	}
	if grown := e.options.Grown; grown != nil {
		o.Grown = func(bytes int64) { grown(a.Name, bytes) }
	}
	if free, err := freeBytes(e.options.CacheDir); err == nil {
		o.FileBytes = uint64(free)
	}
	return o
}

func (e *Engine) sbomOptions(a Adapter) adapter.Options {
	o := e.processOptions(a, e.options.SBOMMemory)
	o.Write = []string{e.path(layersDir)}
	return o
}

func (e *Engine) path(parts ...string) string {
	return filepath.Join(append([]string{e.options.CacheDir}, parts...)...)
}

// FreeBytes tells how much the disk of the cache has left.
func (e *Engine) FreeBytes() (int64, error) { return freeBytes(e.options.CacheDir) }

func freeBytes(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("look at disk: %w", err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// Close ends all adapters. What runs is given up.
func (e *Engine) Close() error {
	var errs []error
	for _, r := range e.adapters {
		if r.starter != nil {
			errs = append(errs, r.starter.Close())
		}
		r.mutex.Lock()
		if r.keeper != nil {
			errs = append(errs, r.keeper.Close())
		}
		r.mutex.Unlock()
	}
	return errors.Join(append(errs, e.proxy.Close())...)
}

// Describe tells what an adapter has said of itself.
func (e *Engine) Describe(name string) (protocol.Description, bool) {
	r, found := e.adapters[name]
	if !found {
		return protocol.Description{}, false
	}
	return r.description, true
}

func (e *Engine) find(name string) (*running, error) {
	r, found := e.adapters[name]
	if !found {
		return nil, protocol.Errorf(protocol.Unsupported, "this worker has no adapter %q", name)
	}
	return r, nil
}

// Document is a file that an adapter has made.
type Document struct {
	Path   string
	SHA256 string
	Bytes  int64
}
