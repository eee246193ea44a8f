// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/scanyard/scanyard/reports/internal/access"
	"github.com/scanyard/scanyard/reports/internal/findingqueries"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/metrics"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	minRequestBytes = 1 << 20
	// minWatchStall is longer than what a client needs to take something over a slow line.
	minWatchStall   = time.Second
	maxRequestBytes = 64 << 20
	// closeWithin is how long the database may take to be closed.
	closeWithin = 5 * time.Second
	prextFlag   = "serve-prext"
)

// serveFlags say what is served, to whom, and where.
type serveFlags struct {
	database   databaseFlags
	cluster    *access.Cluster
	inCluster  inClusterFlags
	door       access.Standalone
	limits     server.Limits
	groups     server.Groups
	bind       string
	cert, key  string
	history    time.Duration
	keep       keepFlags
	standalone bool
	restored   bool

	queryDSNFile string
	http         bool
	signals      bool
}

func newServe(out io.Writer, getenv func(string) string) *cobra.Command {
	f := &serveFlags{cluster: access.NewCluster()}
	command := &cobra.Command{
		Use: "serve", Short: "Serve; what is done without a command", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.standalone && !cmd.Flags().Changed(prextFlag) {
				f.groups.Prext = true // who tries the door wants to see all that there is
			}
			return f.run(cmd.Context(), out, getenv)
		},
	}
	f.bindFlags(command.Flags())
	return command
}

func (f *serveFlags) bindFlags(flags *pflag.FlagSet) {
	f.database.bind(flags)
	f.cluster.BindFlags(flags)
	f.inCluster.bind(flags)
	flags.StringVar(&f.bind, "bind", "", "`address` to serve at: 0.0.0.0:8443 by default, 127.0.0.1:0 with --standalone")
	flags.StringVar(&f.cert, "tls-cert", "", "`file` of the serving certificate; it is read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "`file` of the key of the serving certificate")
	flags.DurationVar(&f.history, "history", 5*time.Minute, "how long changes are kept for those who watch and page")
	f.keep.bind(flags)
	flags.StringVar(&f.queryDSNFile, "query-dsn-file", "",
		"`file` that holds the data source name of a read-only copy of the database, which answers FindingQueries; otherwise "+queryVariable+" does")
	flags.BoolVar(&f.restored, "restored", false, "the database is an older copy: everybody who watches has to list again")
	flags.BoolVar(&f.groups.WGPolicy, "serve-wgpolicy", true, "serve wgpolicyk8s.io")
	flags.BoolVar(&f.groups.OpenReports, "serve-openreports", true, "serve openreports.io")
	flags.BoolVar(&f.groups.Scanyard, "serve-scanyard", true, "serve reports.scanyard.io")
	flags.BoolVar(&f.groups.Prext, prextFlag, false, "serve prext.demo; on by default with --standalone")
	flags.Int64Var(&f.limits.RequestBytes, "max-request-bytes", 3<<20, "bytes of one request's body, 1 MiB to 64 MiB")
	flags.Int64Var(&f.limits.InflightBytes, "max-inflight-bytes", 64<<20, "bytes of the bodies of all requests in work")
	flags.Int64Var(&f.limits.ListBytes, "max-list-bytes", 256<<20, "bytes of a list without a limit")
	flags.DurationVar(&f.limits.WatchStall, "watch-stall", 15*time.Minute, "how long a watch waits for a client that takes nothing of what there is for it")
	flags.BoolVar(&f.standalone, "standalone", false, "need no kube-apiserver: a door for tests and for trying, on this machine only")
	flags.StringVar(&f.door.TokenFile, "token-file", "", "with --standalone: `file` of lines token,user,group1|group2[,namespace]")
	flags.StringVar(&f.door.ClientCA, "client-ca", "", "with --standalone: `file` of CAs of client certificates")
	flags.StringSliceVar(&f.door.Namespaces, "namespaces", nil, "with --standalone: the namespaces that exist; without it all do")
	flags.BoolVar(&f.http, "http", false, "with --standalone: serve without TLS")
	flags.BoolVar(&f.signals, "test-signals", false, "with --standalone: SIGUSR1 compacts up to now")
}

func (f *serveFlags) validate() error {
	var errs []error
	if f.limits.RequestBytes < minRequestBytes || f.limits.RequestBytes > maxRequestBytes {
		errs = append(errs, fmt.Errorf("--max-request-bytes must be from %d to %d, is %d", minRequestBytes, maxRequestBytes, f.limits.RequestBytes))
	}
	if f.limits.WatchStall < minWatchStall {
		errs = append(errs, fmt.Errorf("--watch-stall must be %s or more, is %s", minWatchStall, f.limits.WatchStall))
	}
	if err := f.keep.validate(); err != nil {
		errs = append(errs, err)
	}
	if (f.cert == "") != (f.key == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key must be given together"))
	}
	if f.http && f.cert != "" {
		errs = append(errs, errors.New("--http and --tls-cert exclude each other"))
	}
	if f.inCluster.tlsSecret != "" && f.cert != "" {
		errs = append(errs, errors.New("--tls-secret and --tls-cert exclude each other"))
	}
	if f.standalone {
		if f.keep.markExceptions {
			errs = append(errs, errors.New("--mark-exceptions is for a cluster, not for --standalone"))
		}
		if f.inCluster.service != "" {
			errs = append(errs, errors.New("--service is for a cluster, not for --standalone"))
		}
		return errors.Join(append(errs, f.validateDoor())...)
	}
	if f.http || f.signals || f.door.TokenFile != "" || f.door.ClientCA != "" || f.door.Namespaces != nil {
		errs = append(errs, errors.New("--http, --token-file, --client-ca, --namespaces and --test-signals are for --standalone"))
	}
	return errors.Join(append(errs, f.inCluster.validate(), f.cluster.Validate())...)
}

// validateDoor refuses addresses that other machines reach.
func (f *serveFlags) validateDoor() error {
	if f.bind == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(f.bind)
	if err != nil {
		return fmt.Errorf("--bind: %w", err)
	}
	if address := net.ParseIP(host); host != "localhost" && (address == nil || !address.IsLoopback()) {
		return fmt.Errorf("--bind must be a loopback address with --standalone, is %q", f.bind)
	}
	return nil
}

func (f *serveFlags) run(ctx context.Context, out io.Writer, getenv func(string) string) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	database, err := f.database.config(getenv)
	if err != nil {
		return err
	}
	if database.Migrate == sqldb.MigrateOnly {
		return migrate(ctx, out, database)
	}
	boundHeap(getenv)
	var followed *exceptions
	if f.keep.markExceptions {
		if followed, err = newExceptions(f.cluster); err != nil {
			return err
		}
	}
	watched, err := metrics.OfProcess()
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	replica, err := f.replica(database, getenv, watched)
	if err != nil {
		return err
	}
	if replica != nil {
		defer func() { err = errors.Join(err, replica.Close()) }()
	}
	certificate, ca, tasks, err := f.certificateOf(ctx)
	if err != nil {
		return err
	}
	store, err := mvcc.Open(ctx, database, mvcc.Options{
		History: f.history, Restored: f.restored, Unindex: kinds.Unindex, NamespaceBytes: f.keep.namespaceBytes, Observer: watched,
		Freezable: movedKinds,
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		err = errors.Join(err, store.Close(closing))
	}()
	if f.signals {
		tasks = append(tasks, compactOnSignal(store))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	warmer := &findingqueries.Warmer{}
	tasks = append(tasks, server.Task{Name: "answers", Run: warmer.Run})
	return server.Run(ctx, server.Options{
		Store: store, Listener: listener, Certificate: certificate, Access: f.access(), Groups: f.groups, Limits: f.limits,
		Tasks: append(tasks, followed.tasks()...), Virtual: f.keep.virtual(database, replica, f.database.sqlite, watched, followed, warmer),
		Observer:   watched,
		Suppressed: followed.suppressed(),
		Ready:      func(url string) { announce(out, url, ca) },
	})
}

// movedKinds are the keys of the kinds that can be moved back to CRDs.
func movedKinds(key string) bool {
	return strings.HasPrefix(key, "/reports/") || strings.HasPrefix(key, "/clusterreports/")
}

func (f *serveFlags) address() string {
	switch {
	case f.bind != "":
		return f.bind
	case f.standalone:
		return "127.0.0.1:0"
	}
	return "0.0.0.0:8443"
}

func (f *serveFlags) access() func(*genericapiserver.RecommendedConfig) ([]server.Task, error) {
	if f.standalone {
		return f.door.Apply
	}
	return f.cluster.Apply
}

// announce tells in one line where the server is, and whom its clients have to trust.
func announce(out io.Writer, url, ca string) {
	line, err := json.Marshal(struct {
		URL string `json:"url"`
		CA  string `json:"ca"`
	}{url, ca})
	if err == nil {
		_, _ = fmt.Fprintf(out, "%s\n", line) // nobody may listen
	}
}

// certificateOf gives the serving certificate and what keeps it. In a cluster that is what keeps the APIServices, too, since
// they say whom kube-apiserver has to trust.
func (f *serveFlags) certificateOf(ctx context.Context) (provider dynamiccertificates.CertKeyContentProvider, ca string, tasks []server.Task, err error) {
	if f.inCluster.service == "" {
		return f.ownCertificate()
	}
	config, err := f.cluster.ClientConfig()
	if err != nil {
		return nil, "", nil, err
	}
	kept, err := f.inCluster.connect(config, f.groups)
	if err != nil {
		return nil, "", nil, err
	}
	for _, metric := range kept.metrics() {
		if err := legacyregistry.Registerer().Register(metric); err != nil {
			return nil, "", nil, fmt.Errorf("register a metric: %w", err)
		}
	}
	if kept.certificate == nil {
		provider, ca, tasks, err = f.ownCertificate()
		return provider, ca, append(tasks, kept.tasks()...), err
	}
	if err := kept.certificate.RunOnce(ctx); err != nil {
		return nil, "", nil, err
	}
	return kept.certificate, string(kept.certificate.CABundle()), kept.tasks(), nil
}

// ownCertificate gives the serving certificate: nil for plain HTTP, that of the files, or one that was made just now. ca is
// what clients have to trust.
func (f *serveFlags) ownCertificate() (provider dynamiccertificates.CertKeyContentProvider, ca string, tasks []server.Task, err error) {
	switch {
	case f.http:
		return nil, "", nil, nil
	case f.cert != "":
		files, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving", f.cert, f.key)
		if err != nil {
			return nil, "", nil, fmt.Errorf("read the serving certificate: %w", err)
		}
		content, _ := files.CurrentCertKeyContent()
		return files, string(content), []server.Task{{Name: "serving-certificate", Run: func(ctx context.Context) error {
			files.Run(ctx, 1)
			return nil
		}}}, nil
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	made, key, err := cert.GenerateSelfSignedCertKey("localhost", loopback, []string{"localhost"})
	if err != nil {
		return nil, "", nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	static, err := dynamiccertificates.NewStaticCertKeyContent("made-at-start", made, key)
	if err != nil {
		return nil, "", nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	return static, lastCertificate(string(made)), nil, nil
}

// lastCertificate is the CA of a chain in PEM.
func lastCertificate(chain string) string {
	if at := strings.LastIndex(chain, "-----BEGIN CERTIFICATE-----"); at >= 0 {
		return chain[at:]
	}
	return chain
}

// compactOnSignal drops all changes up to now whenever the process gets SIGUSR1.
func compactOnSignal(store *mvcc.Store) server.Task {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	return server.Task{Name: "test-signals", Run: func(ctx context.Context) error {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-signals:
			}
			current, err := store.Current(ctx)
			if err != nil {
				return err
			}
			if err := store.Compact(ctx, current); err != nil {
				return err
			}
		}
	}}
}
