// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/scanyard/scanyard/tests/localcluster/images"
	"github.com/scanyard/scanyard/tests/localcluster/process"
	"github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

// Options configure an agent. All paths are absolute.
type Options struct {
	Client kubernetes.Interface
	// Name is the node's name.
	Name string
	// Dir keeps volumes, logs, container layers and unpacked images.
	Dir string
	// Listen is where logs are served to the API server.
	Listen string
	// ServerCert, ServerKey and ClientCA are the files for that.
	ServerCert, ServerKey, ClientCA string
	// APIHost and APIPort are what containers are told of the API server.
	APIHost, APIPort string
	Images           *images.Store
	SimNodes         int
	SimDelay         time.Duration
	// PodStartDelay is how long a pod waits before its first container runs.
	PodStartDelay time.Duration
	// Backoff is the first pause between restarts; zero means 10 s.
	Backoff time.Duration
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	defaultBackoff = 10 * time.Second
	maxBackoff     = 5 * time.Minute
	// retryPause is the pause before something that only needs another
	// object to appear (a Secret, a ConfigMap) is tried again.
	retryPause = time.Second
	// placers is how many pods are bound at a time.
	placers = 16
)

// Agent runs the pods of one node.
type Agent struct {
	o          Options
	podIP      string
	cgroups    cgroups
	resolver   func() ([]sandbox.Mount, error)
	spawn      *process.Spawner
	startSlots chan struct{}
	place      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	pods       cache.Indexer
	nodes      cache.Indexer
	simNext    simCursor
	simSeen    sync.Map // UIDs of simulated pods under way

	mu      sync.Mutex
	workers map[types.UID]*worker
}

// New makes an agent; Run starts it.
func New(o Options) *Agent {
	if o.Backoff == 0 {
		o.Backoff = defaultBackoff
	}
	return &Agent{
		o: o, podIP: machineIP(), spawn: process.NewSpawner(), workers: map[types.UID]*worker{},
		startSlots: make(chan struct{}, 4*runtime.NumCPU()),
		place: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second)),
	}
}

// machineIP is the address that pods are reachable at: they share the
// machine's network. Endpoints may not hold a loopback address.
func machineIP() string {
	const loopback = "127.0.0.1"
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return loopback
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return loopback
}

// Run registers the node and runs its pods until ctx ends. Containers that
// still run then are killed by the end of the process.
func (a *Agent) Run(ctx context.Context) error {
	for _, d := range []string{"pods", "logs", "images"} {
		if err := os.MkdirAll(filepath.Join(a.o.Dir, d), 0o700); err != nil {
			return fmt.Errorf("make node folder: %w", err)
		}
	}
	var err error
	if a.cgroups, err = openCgroups(cgroupName(a.o.Dir)); err != nil {
		a.o.Log.Warn("limits of memory, CPU and processes are not enforced: cgroups cannot be used", "error", err)
	}
	defer a.cgroups.close()
	// The name servers have their time while the node starts.
	a.resolver = sync.OnceValues(func() ([]sandbox.Mount, error) { return a.resolverMounts(ctx) })
	go func() { _, _ = a.resolver() }() // The first container tells of an error.
	port, serving, err := a.serve(ctx)
	if err != nil {
		return err
	}
	if err := a.register(ctx, port); err != nil {
		return err
	}
	if err := a.finishLeftovers(ctx); err != nil {
		return err
	}
	f := informers.NewSharedInformerFactoryWithOptions(a.o.Client, 0, informers.WithTransform(dropManagedFields))
	nodes := f.Core().V1().Nodes().Informer()
	a.nodes = nodes.GetIndexer()
	pods := f.InformerFor(&corev1.Pod{}, unfinishedPods)
	a.pods = pods.GetIndexer()
	_, err1 := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { a.replace() }, UpdateFunc: a.nodeChanged})
	_, err2 := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { a.observe(ctx, o) }, UpdateFunc: func(_, o any) { a.observe(ctx, o) }, DeleteFunc: a.gone,
	})
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("watch pods and nodes: %w", err)
	}
	if err := a.provide(ctx, f); err != nil {
		return err
	}
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	for range placers {
		go a.placeLoop(ctx)
	}
	defer a.place.ShutDown()
	go a.heartbeat(ctx)
	go a.removeOldLogs(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-serving:
		return fmt.Errorf("serve logs: %w", err)
	}
}

// unfinishedPods watches pods that still have something to do.
func unfinishedPods(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(c, resync, informers.WithTransform(dropManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.AndSelectors(
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))).String()
		})).Core().V1().Pods().Informer()
}

// dropManagedFields saves about half of the memory of a cached pod.
func dropManagedFields(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// observe looks at a pod as the API server has it now.
func (a *Agent) observe(ctx context.Context, o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	switch {
	case p.Spec.NodeName == "":
		if p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
			a.place.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	case isSimulated(p.Spec.NodeName):
		a.simulate(ctx, p)
	case p.Spec.NodeName == a.o.Name:
		a.work(ctx, p)
	}
}

func (a *Agent) work(ctx context.Context, p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[p.UID]
	if w == nil {
		w = newWorker(a, p.DeepCopy())
		a.workers[p.UID] = w
		go func() {
			w.run(ctx)
			a.mu.Lock()
			defer a.mu.Unlock()
			w.done = true
			a.forget(w)
		}()
	}
	if p.DeletionTimestamp != nil {
		w.terminate(gracePeriod(p), errDeleted)
	}
}

// gracePeriod is how long a pod's containers may take to end.
func gracePeriod(p *corev1.Pod) time.Duration {
	const fallback = 30 * time.Second
	switch {
	case p.DeletionGracePeriodSeconds != nil:
		return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	case p.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return fallback
}

// gone is called when a pod was removed by force, and also when it finished
// and so left the watch.
func (a *Agent) gone(o any) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	a.simSeen.Delete(p.UID)
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[p.UID]; w != nil {
		w.left = true
		w.terminate(0, errGone)
		a.forget(w)
	}
}

// forget drops a worker that has done its work and whose pod has left the
// watch. The watch lags behind: a pod that is forgotten earlier shows up again
// as it was before its end, and would be run once more.
func (a *Agent) forget(w *worker) {
	if w.done && w.left {
		delete(a.workers, w.pod.UID)
	}
}

// finishLeftovers deletes pods that finished while being deleted and whose
// agent then ended before it could say so. They are not in the watch.
func (a *Agent) finishLeftovers(ctx context.Context) error {
	list, err := a.o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + a.o.Name})
	if err != nil {
		return fmt.Errorf("list pods of the node: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		done := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if done && p.DeletionTimestamp != nil {
			if err := a.deletePod(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletePod tells the API server that nothing of a deleted pod is left here.
func (a *Agent) deletePod(ctx context.Context, p *corev1.Pod) error {
	now := int64(0)
	err := a.o.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, or another one has its name
	}
	return err
}

// until retries f while the API server cannot be reached, until ctx ends.
func (a *Agent) until(ctx context.Context, what string, f func() error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil {
			return
		}
		a.o.Log.Warn("retrying", "what", what, "error", err)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep waits and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
