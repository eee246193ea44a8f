// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/storageversionmigrator"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

// The numbers here are the defaults of kube-controller-manager.
const (
	garbageSyncs         = 20
	namespaceSyncs       = 10
	namespacePeriod      = 5 * time.Minute
	volumePeriod         = 15 * time.Second
	maxEndpointsPerSlice = 100
	endpointBatchPeriod  = 0 // changes are written at once
)

// quotaPeriod is how often all quotas are counted anew. kube-controller-manager's five minutes are a long time for a quota of a kind
// that the cluster has just got: it stays uncounted until then.
const quotaPeriod = 15 * time.Second

func newJobs(ctx context.Context, k *kit) (run, error) {
	c, err := job.NewController(ctx, k.client, k.typed.Core().V1().Pods(), k.typed.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, k.jobSyncs) }, nil
}

func newTTL(ctx context.Context, k *kit) (run, error) {
	c := ttlafterfinished.New(ctx, k.typed.Batch().V1().Jobs(), k.client)
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

func newDeployments(ctx context.Context, k *kit) (run, error) {
	apps := k.typed.Apps().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), k.typed.Core().V1().Pods(), k.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

func newReplicaSets(ctx context.Context, k *kit) (run, error) {
	c := replicaset.NewReplicaSetController(ctx, k.typed.Apps().V1().ReplicaSets(), k.typed.Core().V1().Pods(), k.client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

func newEndpointSlices(ctx context.Context, k *kit) (run, error) {
	core := k.typed.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), k.typed.Discovery().V1().EndpointSlices(),
		maxEndpointsPerSlice, k.client, endpointBatchPeriod)
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

// newTokens fills Secrets that ask for a token of a ServiceAccount.
func newTokens(ctx context.Context, k *kit) (run, error) {
	key, err := keyutil.PrivateKeyFromFile(k.files.ServiceAccountKey)
	if err != nil {
		return nil, err
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := k.typed.Core().V1()
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), k.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: k.rootCA})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

func newServiceAccounts(ctx context.Context, k *kit) (run, error) {
	core := k.typed.Core().V1()
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), k.client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func newRootCA(_ context.Context, k *kit) (run, error) {
	c, err := rootcacertpublisher.NewPublisher(k.typed.Core().V1().ConfigMaps(), k.typed.Core().V1().Namespaces(), k.client, k.rootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func newClusterRoles(_ context.Context, k *kit) (run, error) {
	c := clusterroleaggregation.NewClusterRoleAggregation(k.typed.Rbac().V1().ClusterRoles(), k.client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, syncs) }, nil
}

// newNamespaces empties namespaces that are deleted, which takes many requests.
func newNamespaces(ctx context.Context, k *kit) (run, error) {
	config, err := k.faster()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	byMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, byMetadata, client.Discovery().ServerPreferredNamespacedResources,
		k.typed.Core().V1().Namespaces(), namespacePeriod, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, namespaceSyncs) }, nil
}

func newGarbageCollector(ctx context.Context, k *kit) (run, error) {
	kinds, err := k.clients.DiscoveryClient(k.name)
	if err != nil {
		return nil, err
	}
	byMetadata, err := k.metadata(k.name)
	if err != nil {
		return nil, err
	}
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, k.client, byMetadata, k.mapper, k.graph)
	if err != nil {
		return nil, err
	}
	return runAll(
		func(ctx context.Context) { c.Run(ctx, garbageSyncs, rediscover) },
		func(ctx context.Context) { c.Sync(ctx, kinds, rediscover) },
	), nil
}

func newQuotas(ctx context.Context, k *kit) (run, error) {
	kinds, err := k.clients.DiscoveryClient(k.name)
	if err != nil {
		return nil, err
	}
	counted, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(k.typed.ForResource), k.typed)
	if err != nil {
		return nil, err
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient: k.client.CoreV1(), ResourceQuotaInformer: k.typed.Core().V1().ResourceQuotas(),
		ResyncPeriod:    controller.StaticResyncPeriodFunc(quotaPeriod),
		InformerFactory: k.all, ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc: kinds.ServerPreferredNamespacedResources, IgnoredResourcesFunc: counted.IgnoredResources,
		InformersStarted: k.started, Registry: generic.NewRegistry(counted.Evaluators()), UpdateFilter: quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return runAll(
		func(ctx context.Context) { c.Run(ctx, syncs) },
		func(ctx context.Context) { c.Sync(ctx, kinds.ServerPreferredNamespacedResources, rediscover) },
	), nil
}

// newMigrators writes the objects of a kind anew when a StorageVersionMigration asks for it.
func newMigrators(ctx context.Context, k *kit) (run, error) {
	config, err := k.faster()
	if err != nil {
		return nil, err
	}
	kinds, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	byMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	asked := k.typed.Storagemigration().V1().StorageVersionMigrations()
	return runAll(
		storageversionmigrator.NewSVMController(ctx, k.client, objects, asked, k.name, k.mapper, k.graph).Run,
		storageversionmigrator.NewResourceVersionController(ctx, k.client, served, byMetadata, asked, k.mapper).Run,
		storageversionmigrator.NewCustomResourceController(ctx, k.client, asked, kinds.ApiextensionsV1().CustomResourceDefinitions()).Run,
	), nil
}

// newVolumes binds claims. Volumes are made by the node, which is an external provisioner: no plugin of Kubernetes is needed.
func newVolumes(ctx context.Context, k *kit) (run, error) {
	core := k.typed.Core().V1()
	c, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient: k.client, SyncPeriod: volumePeriod, EnableDynamicProvisioning: true,
		VolumeInformer: core.PersistentVolumes(), ClaimInformer: core.PersistentVolumeClaims(), ClassInformer: k.typed.Storage().V1().StorageClasses(),
		PodInformer: core.Pods(), NodeInformer: core.Nodes(),
	})
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func newClaimProtection(ctx context.Context, k *kit) (run, error) {
	core := k.typed.Core().V1()
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), core.PersistentVolumeClaims(), core.Pods(), k.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func newVolumeProtection(ctx context.Context, k *kit) (run, error) {
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), k.typed.Core().V1().PersistentVolumes(), k.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}
