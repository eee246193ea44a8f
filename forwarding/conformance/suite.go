// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Case is one thing that a receiver does.
type Case struct {
	// Name is GROUP/CASE.
	Name string
	// Wants says what the receiver does, in words.
	Wants string
	run   func(*probe) error
}

// Options say whom the suite asks.
type Options struct {
	Client forwardingv1.ForwardingServiceClient
	// Timeout bounds one case; 0: 30 s.
	Timeout time.Duration
	// Out gets a line for each case, in the form of TAP; nil: nobody reads it.
	Out io.Writer
}

const defaultTimeout = 30 * time.Second

// Run runs all cases and gives the names of those that failed. The error is one of writing the lines.
func Run(ctx context.Context, o Options) (failed []string, err error) {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	run := make([]byte, 8)
	_, _ = rand.Read(run) // never fails
	if _, err := fmt.Fprintf(o.Out, "TAP version 14\n1..%d\n", len(Cases())); err != nil {
		return nil, err
	}
	for i, c := range Cases() {
		line := fmt.Sprintf("ok %d - %s: %s", i+1, c.Name, c.Wants)
		if wrong := one(ctx, o, c, fmt.Sprintf("conformance-%s-%d", hex.EncodeToString(run), i)); wrong != nil {
			failed = append(failed, c.Name)
			line = fmt.Sprintf("not %s # %s", line, strings.ReplaceAll(wrong.Error(), "\n", "; "))
		}
		if _, err := fmt.Fprintln(o.Out, line); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

func one(ctx context.Context, o Options, c Case, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return c.run(&probe{ctx: ctx, client: o.Client, cluster: cluster})
}
