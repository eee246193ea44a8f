// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/conformance"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
)

// conformanceFlags say which receiver is asked.
type conformanceFlags struct {
	target  string
	timeout time.Duration
	options Options
}

const (
	defaultCaseTimeout = 30 * time.Second
	defaultTLSPort     = "443"
)

func newConformance(o Options) *cobra.Command {
	f := &conformanceFlags{options: o}
	cmd := &cobra.Command{
		Use: "conformance", Short: "Ask a receiver whether it does what the protocol wants", Args: noArgs,
		Long: "Ask a receiver whether it does what the protocol wants.\n\nA line for each case, in the form of TAP; exit 1 if one fails. " +
			"Records of the cases stay at the receiver, with cluster IDs that begin with conformance-.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&f.target, "target", "", "the receiver as URL[,KEY=VALUE…] with the keys of a sink, such as grpc://127.0.0.1:9443,insecure=true")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultCaseTimeout, "how long one case may take")
	return cmd
}

func (f *conformanceFlags) run(ctx context.Context) error {
	if f.target == "" {
		return wrongFlag("target", errors.New("must be given, such as grpcs://receiver.example.com:9443,ca=ca.crt"))
	}
	if f.timeout <= 0 {
		return wrongFlag("timeout", errors.New("must be longer than nothing, such as 30s"))
	}
	parsed, err := sinkurl.Parse("target=" + f.target)
	if err != nil {
		return wrongFlag("target", err)
	}
	config := parsed.Config
	if config.URL.Scheme != "grpc" && config.URL.Scheme != "grpcs" {
		return wrongFlag("target", fmt.Errorf("%s is not a receiver: use grpcs://, or grpc:// for plain text", config.URL))
	}
	host := config.URL.Host
	if config.URL.Port() == "" {
		host = net.JoinHostPort(config.URL.Hostname(), defaultTLSPort)
	}
	client := trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: config.URL.Scheme == "grpc",
		Now: time.Now, //nolint:forbidigo // certificates are judged now
	})
	conn, err := client.Conn(host, "scanyard-forwarding/"+f.options.Version, f.timeout)
	if err != nil {
		return wrongFlag("target", err)
	}
	failed, err := conformance.Run(ctx, conformance.Options{
		Client: forwardingv1.NewForwardingServiceClient(conn), Timeout: f.timeout, Out: f.options.Out,
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d cases failed", len(failed), len(conformance.Cases()))
	}
	return nil
}
