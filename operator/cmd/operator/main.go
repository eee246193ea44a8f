// SPDX-License-Identifier: Apache-2.0

// Command operator leads Scans through their lives in a Kubernetes cluster.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	_ "time/tzdata" // time zones of schedules: the image has none

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/operator/internal/app"
)

const usage = `operator leads Scans through their lives in a Kubernetes cluster.

Where results are stored is said by environment variables: S3_ENDPOINT, S3_PORT,
S3_USE_SSL, S3_BUCKET, S3_REGION, S3_PATH_STYLE, S3_CA_FILE, S3_AUTH_TYPE,
S3_PUBLIC_ENDPOINT, MINIO_ACCESS_KEY, MINIO_SECRET_KEY and others;
docs/configuration.md lists them all.

Flags:
`

func main() { os.Exit(run()) }

func run() int {
	var o app.Options
	o.ReadEnv(os.Getenv)
	o.BindFlags(flag.CommandLine)
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	version := flag.Bool("version", false, "print the version and exit")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if *version {
		fmt.Println(buildinfo.Version())
		return 0
	}
	o.Version = buildinfo.Version()
	if errs := o.Validate(); len(errs) > 0 {
		fmt.Fprintf(os.Stderr, "operator: these settings are wrong:\n%s\n", app.Describe(errs))
		return 2
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	log := ctrl.Log.WithName("setup")
	if os.Getenv("GOGC") == "" {
		paceGC()
	}
	rest, err := config.GetConfig()
	if err != nil {
		log.Error(err, "Find the API server: run in a pod, or give --kubeconfig")
		return 1
	}
	if err := app.Run(ctrl.SetupSignalHandler(), rest, o); err != nil {
		log.Error(err, "The operator ends")
		if errors.Is(err, app.ErrOldCRDs) {
			return 2
		}
		return 1
	}
	return 0
}
