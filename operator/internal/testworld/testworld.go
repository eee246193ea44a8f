// SPDX-License-Identifier: Apache-2.0

// Package testworld is what tests of the operator's reconcilers share: a namespace of a real API server for each test, and
// managers for what is tested. Each suite adds what it plays itself: Jobs, schedules, settings.
package testworld

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scanyard/scanyard/operator/internal/caches"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// Patience is how long a test waits for what has to come.
const Patience = 20 * time.Second

const pollInterval = 20 * time.Millisecond

// Main is for TestMain: it runs the tests of a package with a cluster that all of them share.
func Main(m *testing.M, started func(*testcluster.Cluster)) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, started))
}

// World is a namespace of a cluster.
type World struct {
	*testing.T
	*gomega.WithT

	Namespace string
	Client    client.Client

	cluster *testcluster.Cluster
	touches atomic.Int64
}

// New makes a World with a new namespace, which has the labels.
func New(t *testing.T, c *testcluster.Cluster, labels map[string]string) *World {
	t.Helper()
	w := &World{T: t, WithT: gomega.NewWithT(t), Client: c.Client, cluster: c}
	w.SetDefaultEventuallyTimeout(Patience)
	w.SetDefaultEventuallyPollingInterval(pollInterval)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Labels: labels}}
	w.Expect(w.Client.Create(t.Context(), ns)).To(gomega.Succeed())
	w.Namespace = ns.Name
	return w
}

// Manager says what a manager is made of.
type Manager struct {
	// Config is how the manager reaches the API server; the cluster's own if it is nil.
	Config *rest.Config
	// Kinds are what the cache keeps of which kinds.
	Kinds map[client.Object]cache.ByObject
	// Namespaces are what the cache looks at; all of them if there are none.
	Namespaces []string
	// AtOnce ends the manager with the requests that are under way, as when the operator is killed.
	AtOnce bool
}

// NewManager makes a manager, which Run starts.
func (w *World) NewManager(m Manager) ctrl.Manager {
	w.Helper()
	if m.Config == nil {
		m.Config = rest.CopyConfig(w.cluster.Config)
	}
	o := ctrl.Options{
		Scheme: w.cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:  cache.Options{ByObject: m.Kinds, DefaultNamespaces: caches.Namespaces(m.Namespaces), ReaderFailOnMissingInformer: true},
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		// Tests make several managers in one process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	}
	if m.AtOnce {
		o.GracefulShutdownTimeout = new(time.Duration(0))
	}
	mgr, err := ctrl.NewManager(m.Config, o)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	return mgr
}

// Run adds reconcilers to a manager and starts it. It returns what ends the manager, which happens at the end of the test at
// the latest.
func (w *World) Run(mgr ctrl.Manager, setup func(context.Context) error) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.Expect(setup(ctx)).To(gomega.Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		// A manager that ends at once says that it did not wait.
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "grace period of 0s") {
			w.Errorf("the manager ended: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// Create creates objects, in the world's namespace unless they name another one.
func (w *World) Create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(w.Namespace)
		}
		w.Expect(w.Client.Create(w.Context(), o)).To(gomega.Succeed())
	}
}

// Touch changes an object in a way that brings it to its reconciler once more.
func (w *World) Touch(o client.Object) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, w.touches.Add(1))
	w.Expect(w.Client.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, patch))).To(gomega.Succeed())
}

// Events returns the Events on an object of the namespace.
func (w *World) Events(kind, name string) []eventsv1.Event {
	w.Helper()
	var list eventsv1.EventList
	w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(gomega.Succeed())
	var found []eventsv1.Event
	for i := range list.Items {
		if r := list.Items[i].Regarding; r.Kind == kind && r.Name == name {
			found = append(found, list.Items[i])
		}
	}
	return found
}
