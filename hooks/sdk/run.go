// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Process is what a container gives its hook. The zero values of optional fields are those of a pod.
type Process struct {
	// Args are the URLs, in the order of the contract.
	Args []string
	// Env is the environment.
	Env Env
	// Stderr gets the one sentence about a failure, and notes about retries.
	Stderr io.Writer
	// TerminationLog is a file that Kubernetes shows in the pod's status. It is written only if it exists.
	TerminationLog process.LastWords
	// Kubernetes returns how to reach the API server, if the Scan is not in the environment. Optional: the pod's service account.
	Kubernetes func() (*rest.Config, error)
	// Patience is how long requests to an API server or a store that is away are retried. Optional: five minutes.
	Patience time.Duration
	// Transfer changes how storage is reached. Optional.
	Transfer []transfer.Option
	// Transport reaches third parties. Optional: one that trusts NODE_EXTRA_CA_CERTS and uses the proxies of Env.
	Transport http.RoundTripper
	// Clock is the source of time of deliveries. Optional: the real one.
	Clock delivery.Clock
	// Random is the jitter of deliveries, from 0 to below 1. Optional: random.
	Random func() float64
}

// Run does a hook's work and returns the exit code: 0, or another one after one sentence about the failure; see package process.
func Run(ctx context.Context, hook Hook, p Process) int {
	err := run(ctx, hook, p)
	if err == nil {
		return 0
	}
	return p.TerminationLog.Fail(p.Stderr, "hook "+hook.Name, err)
}

func run(ctx context.Context, hook Hook, p Process) error {
	urls, err := parseArgs(p.Args)
	if err != nil {
		return process.Misconfigured(err)
	}
	urls.previous = transfer.URL(p.Env.Get("PREVIOUS_FINDINGS_URL"))
	scan, err := process.ScanOf(p.Env.Get)
	if err != nil {
		return err
	}
	handler, err := hook.New(p.Env)
	if err != nil {
		return process.Misconfigured(err)
	}
	s, err := newSession(p, urls)
	if err != nil {
		return err
	}
	if hook.Excepted != "" {
		if s.excepted, err = exceptedOf(p.Env, hook.Excepted); err != nil {
			return process.Misconfigured(err)
		}
	}
	s.hook, s.instance = hook.Name, p.Env.Get("HOOK_NAME")
	if given := scanclient.FromEnvironment(p.Env.Get); given != nil {
		return runHandedOver(ctx, handler, s, given, p)
	}
	if err := s.readScan(ctx, p, scan); err != nil {
		return err
	}
	return handler.Handle(ctx, s)
}

// readScan makes the session use the API, for an operator that hands nothing over.
func (s *Session) readScan(ctx context.Context, p Process, scan process.Scan) error {
	if p.Kubernetes == nil {
		p.Kubernetes = func() (*rest.Config, error) { return kubeapi.Config(p.Env.Get) }
	}
	config, err := p.Kubernetes()
	if err != nil {
		return err
	}
	policy := kubeapi.Policy(cmp.Or(p.Patience, kubeapi.DefaultPatience))
	policy.Clock = p.Clock.Clock
	api, err := kubeapi.New(config, "scanyard-hook", policy)
	if err != nil {
		return err
	}
	s.client = scanclient.New(api, scan)
	text, err := s.client.Get(ctx)
	if err != nil {
		return err
	}
	s.scan, err = ParseScan(text)
	return err
}

// runHandedOver does the work for a Scan from the environment, and leaves the outcome as the container's termination message.
func runHandedOver(ctx context.Context, handler Handler, s *Session, given *scanclient.Handover, p Process) error {
	var err error
	if s.scan, err = ParseScan(given.Scan); err != nil {
		return fmt.Errorf("environment variable %s: %w", handover.EnvScan, err)
	}
	s.outcome, s.handover = &outcome.Outcome{}, given
	if s.urls.putFindings == "" {
		// A writing hook may find the results of an earlier try of its own.
		s.findings = s.scan.Status.StoredFindings
	}
	if err := handler.Handle(ctx, s); err != nil {
		return err
	}
	words, err := given.Words(ctx, s.store, s.outcome)
	if err == nil {
		err = p.TerminationLog.Leave(words)
	}
	if err != nil {
		return fmt.Errorf("report the outcome to the operator: %w", err)
	}
	return nil
}

func newSession(p Process, urls urls) (*Session, error) {
	var err error
	extraCA := p.Env.Get(process.EnvExtraCA)
	if p.Transport == nil {
		if p.Transport, err = delivery.NewTransport(extraCA, p.Env.Get); err != nil {
			return nil, fmt.Errorf("prepare connections: %w", err)
		}
	}
	sending, err := newSending(p)
	if err != nil {
		return nil, err
	}
	options := append([]transfer.Option{
		transfer.WithExtraCA(extraCA),
		transfer.WithPatience(cmp.Or(p.Patience, transfer.DefaultPatience)),
		transfer.WithRetryNotice(func(err error, wait time.Duration) {
			fmt.Fprintf(p.Stderr, "storage does not respond, retrying in %s: %v\n", wait.Round(time.Second), err)
		}),
	}, p.Transfer...)
	store, err := transfer.New(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare transfers: %w", err)
	}
	return &Session{urls: urls, store: store, sending: sending, log: p.Stderr}, nil
}

// urls are the URLs that the operator hands to a hook. All but the first two may be empty.
type urls struct {
	raw, findings, putRaw, putFindings, previous transfer.URL
}

func parseArgs(args []string) (urls, error) {
	switch len(args) {
	case 2:
		return urls{raw: transfer.URL(args[0]), findings: transfer.URL(args[1])}, nil
	case 4:
		return urls{
			raw: transfer.URL(args[0]), findings: transfer.URL(args[1]),
			putRaw: transfer.URL(args[2]), putFindings: transfer.URL(args[3]),
		}, nil
	default:
		return urls{}, fmt.Errorf("got %d arguments, want 2 URLs (raw result, findings) or 4 (and where to write them)", len(args))
	}
}
