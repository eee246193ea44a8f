// SPDX-License-Identifier: Apache-2.0

// Command autodiscovery has scanned what runs in a Kubernetes cluster.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	ctrl "sigs.k8s.io/controller-runtime"
	clientconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/discovery/kubernetes"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

const usage = `autodiscovery finds Services, container images, Ingresses and HTTPRoutes in a Kubernetes
cluster and keeps a ScheduledScan for each. What it looks at, and how it is scanned, is
said by a configuration file; docs/auto-discovery.md describes it.

When the file changes, the new one is checked and the process ends, to be started again
with it; an invalid file is reported in the log, and the one before stays in force.

Exit codes: 0 ended or to be started again, 1 it could not run, 2 the configuration is wrong.

Flags:
`

// gcPercent trades a little CPU time, of which the discovery needs little, for memory:
// most of it holds the caches. GOGC overrides it.
const gcPercent = 50

const (
	defaultQPS   = 50
	defaultBurst = 100
	exitConfig   = 2
)

func main() { os.Exit(run()) }

func run() int {
	o := kubernetes.RunOptions{QPS: defaultQPS, Burst: defaultBurst}
	flag.StringVar(&o.ConfigFile, "config", "/etc/securecodebox/auto-discovery.yaml", "`file` with the configuration")
	flag.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "`namespace` of the Lease (default: environment variable POD_NAMESPACE)")
	check := flag.Bool("check", false, "check the configuration and exit")
	version := flag.Bool("version", false, "print the version and exit")
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if *version {
		fmt.Println(buildinfo.Version())
		return 0
	}
	if err := checkConfig(o.ConfigFile); err != nil {
		fmt.Fprintf(os.Stderr, "autodiscovery: the configuration is wrong:\n%v\n", err)
		return exitConfig
	}
	if *check {
		return 0
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	log := ctrl.Log.WithName("setup")
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	rest, err := clientconfig.GetConfig()
	if err != nil {
		log.Error(err, "Find the API server: run in a pod, or give --kubeconfig")
		return 1
	}
	switch err := kubernetes.Run(ctrl.SetupSignalHandler(), rest, o); {
	case errors.Is(err, kubernetes.ErrRestart):
		return 0
	case err != nil:
		log.Error(err, "The auto-discovery ends")
		return 1
	}
	return 0
}

func checkConfig(file string) error {
	raw, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	_, err = config.Load(filepath.Base(file), raw)
	return err
}
