// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/pki"
)

const (
	// defaultJobSyncs is how many Jobs are handled at a time. It is the default of kube-controller-manager, made explicit to be
	// shown beside measurements.
	defaultJobSyncs = 10
	// syncs is how many objects of another kind are handled at a time, again as in kube-controller-manager.
	syncs = 5
	// resync is how often informers show controllers all objects again.
	resync = 12 * time.Hour
	// rediscover is how often kinds that came or went are looked for.
	rediscover = 30 * time.Second
	// apiServerTimeout bounds how long the controllers wait for kube-apiserver. The supervisor starts them again.
	apiServerTimeout = 10 * time.Second
	// controllerQPS and controllerBurst let thousands of Jobs through.
	controllerQPS, controllerBurst = 2000, 4000
)

// controllers is what Jobs, Deployments, their volumes and a clean namespace deletion need, each with the name by which
// kube-apiserver knows its client. Everything else would cost start time, memory and, on a machine that has not built the cluster
// before, minutes: kube-controller-manager's own package links all controllers, and with one of them the kubelet and the scheduler.
var controllers = []struct {
	name string
	make func(context.Context, *kit) (run, error)
}{
	{"tokens-controller", newTokens},
	{"service-account-controller", newServiceAccounts},
	{"root-ca-cert-publisher", newRootCA},
	{"clusterrole-aggregation-controller", newClusterRoles},
	{"namespace-controller", newNamespaces},
	{"generic-garbage-collector", newGarbageCollector},
	{"resourcequota-controller", newQuotas},
	{"storage-version-migrator-controller", newMigrators},
	{"job-controller", newJobs},
	{"ttl-after-finished-controller", newTTL},
	{"deployment-controller", newDeployments},
	{"replicaset-controller", newReplicaSets},
	{"endpointslice-controller", newEndpointSlices},
	{"persistent-volume-binder", newVolumes},
	{"pvc-protection-controller", newClaimProtection},
	{"pv-protection-controller", newVolumeProtection},
}

// kit is what one controller is made of.
type kit struct {
	*manager

	name   string
	client kubernetes.Interface
}

// run is a controller at work, until the context ends.
type run func(context.Context)

// manager is what controllers share.
type manager struct {
	clients clientbuilder.SimpleControllerClientBuilder
	files   pki.Files
	rootCA  []byte
	// jobSyncs is how many Jobs are handled at a time.
	jobSyncs int
	// typed are the informers of Kubernetes' own kinds; all are those and, by their metadata, of every other kind.
	typed informers.SharedInformerFactory
	all   informerfactory.InformerFactory
	// started is closed once the informers run.
	started chan struct{}
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	graph   *garbagecollector.GraphBuilder
}

// RunControllerManager runs the controllers of the cluster as its admin.
func RunControllerManager(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	m, err := newManager(ctx, l, s)
	if err != nil {
		return err
	}
	runs := make([]run, 0, len(controllers))
	for _, c := range controllers {
		client, err := m.clients.Client(c.name)
		if err != nil {
			return err
		}
		r, err := c.make(ctx, &kit{m, c.name, client})
		if err != nil {
			return fmt.Errorf("make %s: %w", c.name, err)
		}
		runs = append(runs, r)
	}
	m.all.Start(ctx.Done()) // the typed ones as well
	defer m.typed.Shutdown()
	close(m.started)
	runAll(runs...)(ctx)
	return nil
}

func newManager(ctx context.Context, l localcluster.Layout, s *localcluster.State) (*manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = controllerQPS, controllerBurst
	config.DisableCompression = true // as kube-controller-manager's
	// Kinds of others have no protobuf; kube-apiserver answers in JSON for them.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	m := &manager{
		clients: clientbuilder.SimpleControllerClientBuilder{ClientConfig: config},
		files:   pki.In(l.PKI()), jobSyncs: s.JobSyncs, started: make(chan struct{}),
	}
	if m.jobSyncs == 0 {
		m.jobSyncs = defaultJobSyncs
	}
	if m.rootCA, err = os.ReadFile(m.files.CA); err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if err := m.addInformers(); err != nil {
		return nil, err
	}
	return m, m.addKinds(ctx)
}

// addInformers makes the informers that controllers share.
func (m *manager) addInformers() error {
	client, err := m.clients.Client("shared-informers")
	if err != nil {
		return err
	}
	byMetadata, err := m.metadata("metadata-informers")
	if err != nil {
		return err
	}
	m.typed = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(trim))
	m.all = informerfactory.NewInformerFactory(
		m.typed, metadatainformer.NewSharedInformerFactoryWithOptions(byMetadata, resync, metadatainformer.WithTransform(trim)))
	return nil
}

// addKinds makes what knows the kinds of the cluster, and which objects own which.
func (m *manager) addKinds(ctx context.Context) error {
	client, err := m.clients.Client("controller-discovery")
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, apiServerTimeout, true, func(ctx context.Context) (bool, error) {
		return client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for kube-apiserver: %w", err)
	}
	kinds, err := m.clients.DiscoveryClient("controller-discovery")
	if err != nil {
		return err
	}
	m.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	go wait.Until(m.mapper.Reset, rediscover, ctx.Done())
	byMetadata, err := m.metadata("metadata-informers")
	if err != nil {
		return err
	}
	m.graph = garbagecollector.NewDependencyGraphBuilder(ctx, byMetadata, m.mapper, garbagecollector.DefaultIgnoredResources(), m.all, m.started)
	return nil
}

// metadata is a client that reads the metadata of any kind.
func (m *manager) metadata(name string) (metadata.Interface, error) {
	config, err := m.clients.Config(name)
	if err != nil {
		return nil, err
	}
	return metadata.NewForConfig(config)
}

// faster is the configuration of a client that sends many requests at a time.
func (k *kit) faster() (*rest.Config, error) {
	config, err := k.clients.Config(k.name)
	if err != nil {
		return nil, err
	}
	config.QPS *= 20
	config.Burst *= 100
	return config, nil
}

// trim removes from an object what no controller reads.
func trim(o any) (any, error) {
	if a, err := meta.Accessor(o); err == nil {
		a.SetManagedFields(nil)
	}
	return o, nil
}

// runAll runs several as one.
func runAll(runs ...run) run {
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, r := range runs {
			wg.Go(func() { r(ctx) })
		}
		wg.Wait()
	}
}
