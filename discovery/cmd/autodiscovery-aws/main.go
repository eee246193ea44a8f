// SPDX-License-Identifier: Apache-2.0

// Command autodiscovery-aws scans the images that run in Amazon ECS.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/scanyard/scanyard/discovery/aws"
)

const usage = `autodiscovery-aws makes a ScheduledScan for every image that runs in Amazon ECS. It
learns what runs from events that EventBridge sends to an SQS queue.

SQS_QUEUE_URL and AWS_REGION take the place of aws.queueUrl and aws.region in the
configuration. Credentials are looked for where every AWS SDK looks: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a web identity (IRSA), EKS Pod Identity, the
instance's role.

Flags:
`

// namespaceFile is where every pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func main() { os.Exit(run()) }

func run() int {
	file := flag.String("config", "/etc/securecodebox/auto-discovery-cloud-aws.yaml", "configuration `file`")
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	data, err := os.ReadFile(*file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "autodiscovery-aws: read the configuration: %v\n", err)
		return 2
	}
	settings, err := aws.Load(*file, data, os.Getenv, ownNamespace())
	if err != nil {
		fmt.Fprintf(os.Stderr, "autodiscovery-aws: the configuration is wrong:\n%v\n", err)
		return 2
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	log := ctrl.Log.WithName("setup")
	rest, err := config.GetConfig()
	if err != nil {
		log.Error(err, "Find the API server: run in a pod, or give --kubeconfig")
		return 1
	}
	if err := aws.Run(ctrl.SetupSignalHandler(), rest, settings, ownNamespace()); err != nil {
		log.Error(err, "Auto-discovery ends")
		return 1
	}
	return 0
}

// ownNamespace is that of the pod; empty outside of a cluster.
func ownNamespace() string {
	if ns := os.Getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	data, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // not in a pod
	}
	return strings.TrimSpace(string(data))
}
