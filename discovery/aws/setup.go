// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// requestTimeout is longer than SQS lets a request wait for messages.
const requestTimeout = time.Minute

// Run discovers until the context ends. leaseNamespace is the namespace of the lease; it is used only
// if the settings enable leader election.
func Run(ctx context.Context, rest *rest.Config, s *Settings, leaseNamespace string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), executionv1.AddToScheme(scheme)); err != nil {
		return err
	}
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout))}
	if s.AWS.Region != "" {
		options = append(options, config.WithRegion(s.AWS.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return fmt.Errorf("read the configuration of AWS: %w", err)
	}
	if cfg.Region == "" {
		return fmt.Errorf("the region is not known: set aws.region in the configuration, or the variable %s", EnvRegion)
	}
	mgr, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: s.Metrics.BindAddress},
		HealthProbeBindAddress:        s.Health.HealthProbeBindAddress,
		LeaderElection:                s.LeaderElection.LeaderElect,
		LeaderElectionID:              s.LeaderElection.ResourceName,
		LeaderElectionNamespace:       leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	r := NewRunner(Options{
		Settings: s, Client: client.WithFieldOwner(mgr.GetClient(), FieldOwner), Reader: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("scanyard-autodiscovery-aws"), SQS: sqs.NewFromConfig(cfg), ECS: ecs.NewFromConfig(cfg),
		Clock: clock.RealClock{}, Metrics: NewMetrics(metrics.Registry),
	})
	err = errors.Join(mgr.Add(r), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("queue", r.Healthz))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
