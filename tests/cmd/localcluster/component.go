// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/controlplane"
	"github.com/scanyard/scanyard/tests/localcluster/images"
	"github.com/scanyard/scanyard/tests/localcluster/node"
	"github.com/scanyard/scanyard/tests/localcluster/objectstore"
	"github.com/scanyard/scanyard/tests/localcluster/pki"
	"github.com/scanyard/scanyard/tests/localcluster/supervisor"
)

// componentCommand is what the supervisor runs: one component, configured by
// nothing but the data directory.
func componentCommand(dataDir *string) *cobra.Command {
	return &cobra.Command{
		Use:    "component NAME",
		Hidden: true,
		Args:   oneComponent, ValidArgs: localcluster.Components,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := layout(*dataDir)
			if err != nil {
				return err
			}
			s, err := localcluster.LoadState(l)
			if err != nil {
				return err
			}
			lessGarbageCollection()
			return runComponent(cmd.Context(), args[0], l, s)
		},
	}
}

// lessGarbageCollection has a component collect garbage when its heap has grown to five times of what was in use
// instead of twice, but begin in time to stay below 1.5 GB: a start of Kubernetes' API server takes a sixth less
// of the processors, which are scarcer than memory where tests run. GOGC and GOMEMLIMIT prevail.
func lessGarbageCollection() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1500 << 20)
	}
}

func runComponent(ctx context.Context, name string, l localcluster.Layout, s *localcluster.State) error {
	switch name {
	case localcluster.Etcd:
		return controlplane.RunEtcd(ctx, l, s)
	case localcluster.S3:
		return objectstore.Run(ctx, l, s)
	case localcluster.APIServer:
		return controlplane.RunAPIServer(ctx, controlplane.APIServerArgs(l, s))
	case localcluster.ControllerManager:
		return controlplane.RunControllerManager(ctx, l, s)
	default:
		return runNode(ctx, l, s)
	}
}

// The agent asks for every Secret and writes every status itself, and with
// simulated nodes does so for thousands of pods.
const nodeQPS, nodeBurst = 2000, 4000

func runNode(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = nodeQPS, nodeBurst
	cfg.ContentConfig = rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	var mapping *images.Map
	if s.Node.ImagesMap != "" {
		if mapping, err = images.LoadMap(s.Node.ImagesMap); err != nil {
			return err
		}
	}
	f := pki.In(l.PKI())
	a := node.New(node.Options{
		Client: client, Name: supervisor.NodeName, Dir: l.NodeData(),
		Listen:     "127.0.0.1:" + strconv.Itoa(s.Ports.Node),
		ServerCert: f.ServerCert, ServerKey: f.ServerKey, ClientCA: f.CA,
		APIHost: "127.0.0.1", APIPort: strconv.Itoa(s.Ports.APIServer),
		Images:   images.NewStore(mapping, s.Node.Images, filepath.Join(l.NodeData(), "images")),
		SimNodes: s.Node.SimNodes, SimDelay: time.Duration(s.Node.SimDelay), Backoff: time.Duration(s.Node.Backoff),
		PodStartDelay: time.Duration(s.Node.PodStartDelay),
		Log:           slog.New(slog.NewTextHandler(os.Stderr, nil)), Now: time.Now,
	})
	return a.Run(ctx)
}
