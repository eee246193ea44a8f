// SPDX-License-Identifier: Apache-2.0

// registry-controller runs the jobs of Registries: schedules, work let in fairly, the queue. See the README of this module.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanyard/scanyard/registry/internal/app"
)

func main() { os.Exit(run()) }

func run() int {
	const usage = 2
	var o app.Options
	flags := flag.NewFlagSet("registry-controller", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` with the API server and credentials; none: those of the pod, or KUBECONFIG")
	o.Bind(flags, os.Getenv)
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return usage
	}
	if err := work(*kubeconfig, &o); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func work(kubeconfig string, o *app.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if kubeconfig != "" {
		if err := os.Setenv("KUBECONFIG", kubeconfig); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	return app.Run(ctrl.SetupSignalHandler(), config, o)
}
