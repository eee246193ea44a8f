// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/scanyard/scanyard/tests/localcluster/checkpoint"
	// A container starts in this package's init, before all else.
	_ "github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

func main() { os.Exit(run()) }

func run() int {
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kube-apiserver":
		return cli.Run(kubeapiserver.NewAPIServerCommand())
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			return 1 // kubectl has printed it
		}
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// defaultDataDir is where "up" without flags keeps its cluster.
func defaultDataDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "scanyard", "localcluster")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("localcluster-%d", os.Getuid()))
}

func newCommand() *cobra.Command {
	var dataDir string
	root := &cobra.Command{
		Use:   "localcluster",
		Short: "A whole Kubernetes cluster on this machine, without containers or downloads",
		Long: `A whole Kubernetes cluster on this machine: etcd, kube-apiserver, the
controllers that Jobs need, a node agent that runs pods as local processes, and
an S3 server. It is for development, tests and demos, and not for production.

  localcluster up --detach                  start it, and return when it is ready
  export KUBECONFIG=$(localcluster kubeconfig)
  localcluster kubectl get nodes            or any kubectl of your own
  localcluster down                         stop it, and remove what it made

Everything it writes is below one data directory (--data-dir).`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dataDir, "data-dir", defaultDataDir(), "directory of the cluster's files")
	root.AddCommand(
		upCommand(&dataDir), downCommand(&dataDir), statusCommand(&dataDir), kubeconfigCommand(&dataDir),
		actionCommand(&dataDir, "restart", "Stop a component in order, and start it again"),
		actionCommand(&dataDir, "stop", "Stop a component in order"),
		actionCommand(&dataDir, "kill", "End a component at once, as kill -9 does"),
		actionCommand(&dataDir, "start", "Start a component that was stopped or killed"),
		storedCommand(
			&dataDir, "checkpoint", "Write down all objects that the cluster has",
			"A later checkpoint replaces an earlier one.", checkpoint.Save,
		),
		storedCommand(
			&dataDir, "rollback", "Make the cluster's objects those of the checkpoint, and empty the S3 server",
			"Servers go on running. Stop the controllers and the node first, and let nothing else use the cluster meanwhile.", checkpoint.Rollback,
		),
		logsCommand(&dataDir), assetsCommand(), kubectlCommand(&dataDir), componentCommand(&dataDir),
	)
	return root
}
