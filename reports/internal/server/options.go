// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/uploads"
)

// Options say what a server serves, and how. Store, Listener and Access are required.
type Options struct {
	// Store is open. Who opened it closes it after Run has returned.
	Store *mvcc.Store
	// Listener is where the server answers. Run closes it.
	Listener net.Listener
	// Certificate is asked for its content at every handshake, so one that rotates needs nothing more. Nil serves plain HTTP.
	Certificate dynamiccertificates.CertKeyContentProvider
	// Access says who may do what: it sets authentication, authorisation, and the admission if there is any, and returns
	// what has to run for that.
	Access func(config *genericapiserver.RecommendedConfig) ([]Task, error)
	// Groups are those that are served.
	Groups Groups
	// Limits bound what clients can ask for. The zero value has the defaults.
	Limits Limits
	// Virtual makes resources of reports.scanyard.io/v1alpha1 that are created and answered but not stored, by their plural
	// names: findingqueries, clusterfindingqueries, reportimports. Each has the methods Create, NamespaceScoped,
	// GetSingularName and, to be found, Categories and ShortNames. New makes the Go type of apis/reports/v1alpha1, which is
	// the internal version too. Nil: there are none.
	Virtual func(deps Deps) (map[string]rest.Storage, error)
	// Observer counts watches and what is refused; nil counts nothing.
	Observer Observer
	// Suppressed is what findings of VulnerabilityReports say of an exception, as KIND/NAME, of their namespace or the cluster. It,
	// and what it returns, may be nil: then they say its name.
	Suppressed func(namespace, exception string) *reportsv1.Suppressed
	// Tasks run as long as the server.
	Tasks []Task
	// Ready is called with the URL once the server answers. Nil: nobody is told.
	Ready func(url string)
}

// Observer counts. Its methods must return at once.
type Observer interface {
	// Watching returns what is told of each watch of a kind that begins (1) and ends (-1).
	Watching(kind string) func(delta int)
	// Refused is called for a request that is refused because of too many others: inflight, bytes or watches.
	Refused(reason string)
	// Stalled is called for a watch that is ended because its client has taken nothing for too long.
	Stalled()
}

// nobody is an Observer that counts nothing.
type nobody struct{}

// Watching implements Observer.
func (nobody) Watching(string) func(int) { return func(int) {} }

// Refused implements Observer.
func (nobody) Refused(string) {}

// Stalled implements Observer.
func (nobody) Stalled() {}

// Groups are the groups that are served.
type Groups struct {
	WGPolicy, OpenReports, Scanyard, Prext bool
}

// Deps are what virtual resources can be made of.
type Deps struct {
	// Store answers questions in SQL by its method Query.
	Store *mvcc.Store
	// Scheme has all kinds, in the versions that are served and in the internal one of each group.
	Scheme *runtime.Scheme
	// Storage returns the storage of a kind by its name in the database: reports, clusterreports, images, sboms,
	// vulnerabilityreports. Its objects are those of package kinds. It is nil for other names.
	Storage func(resource string) storage.Interface
	// Documents serves the documents of images.
	Documents *uploads.Service
}

// Task is work that goes on as long as the server runs.
type Task struct {
	Name string
	// Run returns when its context ends. An error before that ends the server.
	Run func(ctx context.Context) error
}

// Limits bound what clients can ask for.
type Limits struct {
	RequestBytes  int64 // of one body; default 3 MiB
	InflightBytes int64 // of all bodies in work; default 64 MiB
	ListBytes     int64 // of a list without a limit; default 256 MiB
	Reading       int   // requests at once; default 200
	Writing       int   // requests at once; default 100
	Watches       int   // at once; default 10,000
	UserWatches   int   // at once, of one user; default 500
	// WatchStall is how long a watch waits for a client that takes nothing of what there is for it; default 15 minutes.
	WatchStall time.Duration
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.RequestBytes, 3<<20)
	setDefault(&l.InflightBytes, 64<<20)
	setDefault(&l.ListBytes, 256<<20)
	setDefault(&l.Reading, 200)
	setDefault(&l.Writing, 100)
	setDefault(&l.Watches, 10_000)
	setDefault(&l.UserWatches, 500)
	setDefault(&l.WatchStall, 15*time.Minute)
	return l
}

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
