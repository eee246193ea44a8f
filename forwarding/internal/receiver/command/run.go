// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/fleet"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/size"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/version"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

// runFlags are the flags of run.
type runFlags struct {
	listen, httpListen    string
	store                 string
	throwAway             bool
	printAddress          bool
	insecure              bool
	tls                   trust.ServerFiles
	tokens, readTokens    string
	maxConnectionAge      time.Duration
	maxRecord, maxStorage size.Size
	reports, kubeconfig   string
	reportsEvery          time.Duration
}

// defaultReportsInterval is how often is looked for Scans whose reports are not written.
const defaultReportsInterval = 5 * time.Second

// messageBeyondRecord is what a message needs beside its largest record.
const messageBeyondRecord = 64 << 10

func newRun(out, logs io.Writer) *cobra.Command {
	f := &runFlags{maxRecord: forwardingv1.DefaultMaxRecordBytes}
	command := &cobra.Command{
		Use: "run", Short: "Serve ForwardingService, and HTTP for those who read",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			return f.run(command.Context(), out, slog.New(slog.NewJSONHandler(logs, nil)))
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9443", "`address` of ForwardingService; port 0 takes a free one")
	flags.StringVar(&f.httpListen, "http-listen", "127.0.0.1:8080", "`address` of records, streams, counters, health and metrics")
	flags.StringVar(&f.store, "store", "", "`directory` of the store; it is made where it is missing")
	flags.BoolVar(&f.throwAway, "throw-away", false, "keep nothing, whatever --store says, and tell senders so: for trying and for measuring")
	flags.BoolVar(&f.printAddress, "print-address", false, "print one line of JSON with the addresses when everything listens")
	flags.BoolVar(&f.insecure, "insecure", false, "allow plain text on addresses that are not of this machine only")
	flags.StringVar(&f.tls.Certificate, "tls-cert", "", "`file` with the certificate; it is read again when it changes")
	flags.StringVar(&f.tls.Key, "tls-key", "", "`file` with the private key")
	flags.StringVar(&f.tls.ClientCA, "client-ca", "", "`file` with the authorities of clients; each client then needs a certificate")
	flags.StringVar(&f.tokens, "tokens", "", "`file` with one TOKEN[,cluster=ID][,tenant=T] in a line, read again every second; each call then needs a token")
	flags.StringVar(&f.readTokens, "read-tokens", "", "`file` with tokens that let others than this machine read records")
	flags.DurationVar(&f.maxConnectionAge, "max-connection-age", 30*time.Minute,
		"age at which a connection is closed, give or take a tenth, so that certificates are shown again")
	flags.Var(&f.maxRecord, "max-record-bytes", "size above which a record is refused")
	flags.Var(&f.maxStorage, "store-max-bytes", "size of the store from which on nothing is taken; 0: until the disk is almost full")
	flags.StringVar(&f.reports, "reports-rules", "", "`file` that says into which namespaces of a cluster reports of complete Scans are written; empty: into none")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that leads to the API server of reports; empty: the one of the pod")
	flags.DurationVar(&f.reportsEvery, "reports-interval", defaultReportsInterval, "how often is looked for Scans whose reports are not written")
	return command
}

func (f *runFlags) validate() error {
	switch {
	case f.store == "" && !f.throwAway:
		return wrongf("--store is missing: name the directory of the store, or keep nothing with --throw-away")
	case (f.tls.Certificate == "") != (f.tls.Key == ""):
		return wrongf("--tls-cert and --tls-key belong together: give both")
	case f.tls.ClientCA != "" && f.tls.Certificate == "":
		return wrongf("--client-ca needs TLS: give --tls-cert and --tls-key as well")
	case f.maxRecord == 0 || f.maxRecord > 1<<30:
		return wrongf("--max-record-bytes must be from 1 to 1GiB, is %s", f.maxRecord.String())
	case f.reports != "" && f.throwAway:
		return wrongf("--reports-rules needs a store: reports are made of what is stored; leave out --throw-away")
	case f.reportsEvery <= 0:
		return wrongf("--reports-interval must be longer than nothing, is %s", f.reportsEvery)
	case f.maxConnectionAge < 0:
		return wrongf("--max-connection-age must not be below 0, is %s", f.maxConnectionAge)
	}
	if err := f.checkPlain(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(f.httpListen); err != nil {
		return wrongf("--http-listen: %w", err)
	}
	return nil
}

// checkPlain refuses plain text on an address that others can reach.
func (f *runFlags) checkPlain() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return wrongf("--listen: %w", err)
	}
	if f.tls.Certificate != "" || f.insecure || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return wrongf("--listen %s would take findings in plain text from other machines: give --tls-cert and --tls-key, or --insecure where that is meant", f.listen)
	}
	return nil
}

// run serves until ctx ends.
func (f *runFlags) run(ctx context.Context, out io.Writer, log *slog.Logger) (err error) {
	door := &receiver.Door{Log: log}
	options := receiver.Options{Version: version.Text(), MaxConnectionAge: f.maxConnectionAge, Log: log, Limits: &forwardingv1.Limits{
		MaxRecordBytes: uint64(f.maxRecord), MaxMessageBytes: max(forwardingv1.DefaultMaxMessageBytes, uint64(f.maxRecord)+messageBeyondRecord),
	}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if options.Tokens, err = openTokens(ctx, "--tokens", f.tokens, log); err != nil {
		return err
	}
	if door.ReadTokens, err = openTokens(ctx, "--read-tokens", f.readTokens, log); err != nil {
		return err
	}
	reports, err := f.readHub()
	if err != nil {
		return err
	}
	if f.tls.Certificate != "" {
		server, err := trust.NewServer(f.tls, time.Now) //nolint:forbidigo // the command line has the clock
		if err != nil {
			return wrongf("--tls-cert, --tls-key, --client-ca: %w", err)
		}
		options.Credentials = server.Credentials()
	}
	if f.throwAway {
		discard := &receiver.Discard{}
		options.Keeper, door.Counters = discard, discard.Counters
	} else {
		settings := store.Options{Directory: f.store, MaxBytes: uint64(f.maxStorage), Now: time.Now, Log: log} //nolint:forbidigo // the command line has the clock
		opened, err := store.Open(settings)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		options.Keeper, door.Store, door.Counters = opened, opened, opened.Counters
		ended, err := reports.start(ctx, opened, f.reportsEvery, log)
		if err != nil {
			return err
		}
		defer ended() // before the store is closed
		defer stop()
	}
	return f.serve(ctx, out, log, receiver.New(options), door)
}

// hub is the cluster that reports are written into.
type hub struct {
	rules  fleet.Rules
	config *rest.Config
}

// readHub reads what reports need; nil where none are written.
func (f *runFlags) readHub() (*hub, error) {
	if f.reports == "" {
		return nil, nil // no reports are asked for
	}
	text, err := os.ReadFile(f.reports)
	if err != nil {
		return nil, wrongf("--reports-rules: %w", err)
	}
	rules, err := fleet.ParseRules(text)
	if err != nil {
		return nil, wrongf("--reports-rules %s: %w", f.reports, err)
	}
	config, err := kubeapi.Config(func(name string) string {
		if name == "KUBECONFIG" {
			return f.kubeconfig
		}
		return ""
	})
	if err != nil {
		return nil, wrongf("--kubeconfig: %w", err)
	}
	return &hub{rules, config}, nil
}

// start begins to write reports of what is complete. The function waits until it has ended.
func (h *hub) start(ctx context.Context, source *store.Store, every time.Duration, log *slog.Logger) (func(), error) {
	if h == nil {
		return func() {}, nil
	}
	writer, err := fleet.New(h.rules, source, h.config, log)
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { writer.Run(ctx, every) })
	return running.Wait, nil
}

func openTokens(ctx context.Context, flag, path string, log *slog.Logger) (*receiver.Tokens, error) {
	if path == "" {
		return nil, nil // no tokens are asked for
	}
	tokens, err := receiver.NewTokens(path, log)
	if err != nil {
		return nil, wrongf("%s: %w", flag, err)
	}
	go tokens.Watch(ctx)
	return tokens, nil
}

// stopTime is how long calls may take to end when the program is asked to.
const stopTime = 5 * time.Second

func (f *runFlags) serve(ctx context.Context, out io.Writer, log *slog.Logger, service *receiver.Service, door *receiver.Door) error {
	server := service.Server()
	var listen net.ListenConfig
	records, err := listen.Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	reading, err := listen.Listen(ctx, "tcp", f.httpListen)
	if err != nil {
		return errors.Join(fmt.Errorf("--http-listen: %w", err), records.Close())
	}
	pages := &http.Server{Handler: door.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(records) }()
	go func() { failed <- pages.Serve(reading) }()
	if f.printAddress {
		err = json.NewEncoder(out).Encode(address{"receiver", os.Getpid(), records.Addr().String(), reading.Addr().String()})
	}
	log.Info("receiving", "grpc", records.Addr().String(), "http", reading.Addr().String())
	if err == nil {
		select {
		case err = <-failed:
		case <-ctx.Done():
		}
	}
	service.Drain()
	timer := time.AfterFunc(stopTime, server.Stop)
	server.GracefulStop()
	timer.Stop()
	return errors.Join(err, pages.Close())
}

// address is the line of --print-address.
type address struct {
	Program string `json:"program"`
	PID     int    `json:"pid"`
	GRPC    string `json:"grpc"`
	HTTP    string `json:"http"`
}
