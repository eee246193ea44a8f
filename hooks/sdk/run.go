// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/transfer"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Process is what the container gives a hook. The zero values of optional fields are those of a pod.
type Process struct {
	// Args are the URLs, in the order of the contract.
	Args []string
	// Env is the environment.
	Env Env
	// Stderr takes the one sentence that says what went wrong, and notes about retries.
	Stderr io.Writer
	// TerminationLog is a file that Kubernetes shows in the pod's status. It is written only where it exists.
	TerminationLog string
	// Kubernetes says how to reach the API server. Optional: the pod's service account.
	Kubernetes func() (*rest.Config, error)
	// Patience is how long an API server or a store that is away is waited for. Optional: five minutes.
	Patience time.Duration
	// Transfer changes how storage is reached. Optional.
	Transfer []transfer.Option
	// Transport reaches third parties. Optional: one that trusts NODE_EXTRA_CA_CERTS and goes by the proxies of Env.
	Transport http.RoundTripper
	// Clock is where deliveries take time from. Optional: the real one.
	Clock delivery.Clock
	// Random is the jitter of deliveries, from 0 to below 1. Optional: chance.
	Random func() float64
}

// maxSentence is what Kubernetes keeps of a termination message.
const maxSentence = 4096

// Run does a hook's work and returns the exit code: 0, or 1 after saying why in one sentence.
func Run(ctx context.Context, hook Hook, p Process) int {
	err := run(ctx, hook, p)
	if err == nil {
		return 0
	}
	sentence := oneLine(err.Error())
	fmt.Fprintf(p.Stderr, "hook %s: %s\n", hook.Name, sentence)
	if err := writeTerminationLog(p.TerminationLog, sentence); err != nil {
		fmt.Fprintf(p.Stderr, "hook %s: %v\n", hook.Name, err)
	}
	return 1
}

func run(ctx context.Context, hook Hook, p Process) error {
	urls, err := parseArgs(p.Args)
	if err != nil {
		return err
	}
	urls.previous = transfer.URL(p.Env.Get("PREVIOUS_FINDINGS_URL"))
	name, err := p.Env.Require("SCAN_NAME")
	if err != nil {
		return err
	}
	namespace, err := p.Env.Require("NAMESPACE")
	if err != nil {
		return err
	}
	handler, err := hook.New(p.Env)
	if err != nil {
		return err
	}
	s, err := newSession(p, urls, namespace, name)
	if err != nil {
		return err
	}
	s.hook, s.instance = hook.Name, p.Env.Get("HOOK_NAME")
	text, err := s.client.Get(ctx)
	if err != nil {
		return err
	}
	if s.scan, err = ParseScan(text); err != nil {
		return err
	}
	return handler.Handle(ctx, s)
}

func newSession(p Process, urls urls, namespace, name string) (*Session, error) {
	if p.Patience == 0 {
		p.Patience = transfer.DefaultPatience
	}
	if p.Kubernetes == nil {
		p.Kubernetes = rest.InClusterConfig
	}
	config, err := p.Kubernetes()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API: %w", err)
	}
	client, err := NewScanClient(config, namespace, name, p.Patience)
	if err != nil {
		return nil, err
	}
	extraCA := p.Env.Get("NODE_EXTRA_CA_CERTS")
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
		transfer.WithPatience(p.Patience),
		transfer.WithRetryNotice(func(err error, wait time.Duration) {
			fmt.Fprintf(p.Stderr, "storage does not answer, trying again in %s: %v\n", wait.Round(time.Second), err)
		}),
	}, p.Transfer...)
	store, err := transfer.New(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare transfers: %w", err)
	}
	return &Session{urls: urls, client: client, store: store, sending: sending, log: p.Stderr}, nil
}

// urls are what the operator hands to a hook. All but the first two may be empty.
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

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSentence {
		text = strings.ToValidUTF8(text[:maxSentence-len("…")], "") + "…"
	}
	return text
}

// writeTerminationLog writes into the file that Kubernetes put there. Outside a pod there is none, and none is made.
func writeTerminationLog(path, sentence string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write termination message: %w", err)
	}
	if _, err := f.WriteString(sentence + "\n"); err != nil {
		_ = f.Close() // the write error says more
		return fmt.Errorf("write termination message: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write termination message: %w", err)
	}
	return nil
}
