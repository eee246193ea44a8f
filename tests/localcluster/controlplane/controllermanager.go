// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/pki"
)

// controllers is what Jobs, Deployments, their volumes and a clean namespace deletion need.
// Everything else would cost start time and memory for nothing.
var controllers = []string{
	names.JobController,
	names.GarbageCollectorController,
	names.NamespaceController,
	names.ServiceAccountController,
	names.TTLAfterFinishedController,
	names.PodGarbageCollectorController,
	names.RootCACertificatePublisherController,
	names.DeploymentController,
	names.ReplicaSetController,
	names.EndpointSliceController,
	names.ResourceQuotaController,
	names.ClusterRoleAggregationController,
	names.PersistentVolumeBinderController,
	names.PersistentVolumeClaimProtectionController,
	names.PersistentVolumeProtectionController,
	names.StorageVersionMigratorController,
}

// defaultJobSyncs is the default of kube-controller-manager for Jobs handled
// at a time, made explicit to be shown beside measurements.
const defaultJobSyncs = 10

// ControllerManagerArgs are the flags of the cluster's kube-controller-manager.
func ControllerManagerArgs(l localcluster.Layout, s *localcluster.State) []string {
	f := pki.In(l.PKI())
	syncs := s.JobSyncs
	if syncs == 0 {
		syncs = defaultJobSyncs
	}
	return []string{
		"--kubeconfig=" + l.Kubeconfig(),
		"--authentication-kubeconfig=" + l.Kubeconfig(),
		"--authorization-kubeconfig=" + l.Kubeconfig(),
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--service-account-private-key-file=" + f.ServiceAccountKey,
		"--root-ca-file=" + f.CA,
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
		fmt.Sprintf("--concurrent-job-syncs=%d", syncs),
		"--concurrent-gc-syncs=20",
		"--secure-port=0",
	}
}

// RunControllerManager runs kube-controller-manager with the given flags.
func RunControllerManager(ctx context.Context, args []string) error {
	s, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("make kube-controller-manager options: %w", err)
	}
	fs := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	known, off, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	named := s.Flags(known, off, aliases)
	s.ParsedFlags = &named
	for _, f := range named.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse kube-controller-manager flags: %w", err)
	}
	c, err := s.Config(ctx, known, off, aliases)
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	return app.Run(ctx, c.Complete())
}
