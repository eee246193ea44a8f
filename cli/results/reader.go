// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Options are how results are read.
type Options struct {
	// ConnectTo is "host:port" to connect to instead of the host of the links, for example a forwarded port.
	ConnectTo string
	// Patience is how long faults of object storage are retried.
	Patience time.Duration
	// TrustHosts are hosts that links may lead to even if the links of no other Scan do.
	TrustHosts []string
	// LinksTimeout is how long the operator has to write fresh links.
	LinksTimeout time.Duration
}

// Defaults of Options.
const (
	defaultPatience     = 15 * time.Second
	defaultLinksTimeout = 30 * time.Second
)

// BindFlags adds the flags of commands that read results.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(
		&o.ConnectTo, "connect-to", "",
		"connect to this `host:port` instead of the host of the download links, as after \"kubectl port-forward service/NAME 9000\"",
	)
	flags.StringSliceVar(&o.TrustHosts, "trust-host", nil, "follow links to this `host` also where those of no other Scan of the namespace lead there")
	flags.DurationVar(&o.Patience, "patience", defaultPatience, "how long to wait for object storage that does not respond")
	flags.DurationVar(&o.LinksTimeout, "links-timeout", defaultLinksTimeout, "how long to wait for fresh links where those of the Scan have run out")
}

// Reader reads the results of Scans. It is for one goroutine.
type Reader struct {
	session  *session.Session
	client   client.WithWatch
	transfer *transfer.Client
	options  Options
	// lastFault is the fault that caused the last retry.
	lastFault error
}

// New makes a Reader.
func New(s *session.Session, c client.WithWatch, o Options) (*Reader, error) {
	r := &Reader{session: s, client: c, options: o}
	settings := []transfer.Option{
		transfer.WithPatience(o.Patience),
		transfer.WithRetryNotice(r.noteFault),
		transfer.WithClock(retry.Clock{Now: s.Now, Sleep: r.pause}),
	}
	switch {
	case o.ConnectTo != "":
		transport, err := redirected(o.ConnectTo)
		if err != nil {
			return nil, err
		}
		settings = append(settings, transfer.WithTransport(transport))
	case s.HTTP != nil && s.HTTP.Transport != nil:
		settings = append(settings, transfer.WithTransport(s.HTTP.Transport))
	}
	var err error
	if r.transfer, err = transfer.New(settings...); err != nil {
		return nil, fmt.Errorf("prepare downloads: %w", err)
	}
	return r, nil
}

// redirected connects to an address, whatever the host is; the host stays in the request, since the host is signed.
func redirected(address string) (*http.Transport, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("--connect-to %q is not a host:port, such as localhost:9000", address)
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: transfer.DefaultHeaderTimeout,
		DisableCompression:    true, // sizes and ranges are in bytes of the object
	}, nil
}

// noteFault is called with every fault that the reader retries.
func (r *Reader) noteFault(err error, _ time.Duration) {
	if r.lastFault == nil && !isPermanent(err) {
		fmt.Fprintf(r.session.ErrOut, "object storage does not respond as it should, retrying for %s: %v\n", r.options.Patience, err)
	}
	r.lastFault = err
}

// isPermanent reports whether a retry cannot mend a fault.
func isPermanent(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	if isPermanent(r.lastFault) {
		return r.lastFault
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Open downloads a result as a stream and returns its size, -1 if the size is not known. It asks for fresh links if they
// are needed.
func (r *Reader) Open(ctx context.Context, scan *executionv1.Scan, kind Kind) (io.ReadCloser, int64, error) {
	if err := missing(r.session.Program, scan, kind); err != nil {
		return nil, 0, err
	}
	scan, renewed, err := r.distrust(ctx, scan, kind)
	if err != nil {
		return nil, 0, err
	}
	link := kind.link(scan)
	for {
		if !isGood(link, r.session.Now()) && !renewed {
			fresh, err := r.renew(ctx, scan, kind)
			if err != nil {
				return nil, 0, err
			}
			if scan, link, renewed = fresh, kind.link(fresh), true; link == "" {
				return nil, 0, ErrNotStored
			}
		}
		body, size, err := r.transfer.Download(ctx, transfer.URL(link))
		if err == nil {
			body = checked(body, scan, kind)
			return &explained{ReadCloser: body, explain: func(err error) error { return r.explain(err, scan, kind, link) }}, size, nil
		}
		if status, ok := errors.AsType[*transfer.StatusError](err); ok && status.Code == http.StatusForbidden && !renewed {
			link = "" // whatever the link says, storage does not accept it any more
			continue
		}
		if kind == Log && isNotFound(err) {
			return nil, 0, ErrNotStored
		}
		return nil, 0, r.explain(err, scan, kind, link)
	}
}

// ErrNotStored says that storage does not have the end of the scanner's log: the scanner did not run, or its lurker keeps no log.
var ErrNotStored = errors.New("storage has no end of the scanner's log")

func isNotFound(err error) bool {
	status, ok := errors.AsType[*transfer.StatusError](err)
	return ok && status.Code == http.StatusNotFound
}

// explained adds a message for users to the errors of a download.
type explained struct {
	io.ReadCloser

	explain func(error) error
}

func (e *explained) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.explain(err)
	}
	return n, err
}

// missing says why a Scan cannot have a result.
func missing(program string, s *executionv1.Scan, kind Kind) error {
	if s.Settled() && s.Released() {
		return fmt.Errorf("the %s of Scan %s left the cluster: %s; the annotation %s: scanner runs it again", kind, s.Name, whereTo(s), executionv1.AnnotationRerun)
	}
	if kind == Log {
		return nil // a log may be stored however a Scan has ended: only storage knows
	}
	condition := executionv1.ConditionParsed
	if kind == Raw {
		condition = executionv1.ConditionScanned
	}
	stored := meta.FindStatusCondition(s.Status.Conditions, condition)
	switch {
	case stored != nil && stored.Status == metav1.ConditionTrue, reached(s, kind):
		return nil
	case s.Status.State == executionv1.ScanStateErrored && stored == nil && s.Status.ObservedGeneration == 0:
		return nil // the operator writes no conditions: only storage knows
	case s.Status.State == executionv1.ScanStateErrored:
		text := fmt.Sprintf("Scan %s has no %s: it is Errored", s.Name, kind)
		if s.Status.ErrorDescription != "" {
			text += " (" + s.Status.ErrorDescription + ")"
		}
		return fmt.Errorf("%s; \"%s describe %s\" says more", text, program, s.Name)
	}
	state := string(s.Status.State)
	if state == "" {
		state = "not started"
	}
	return fmt.Errorf("Scan %s has no %s yet: it is %s; \"%s wait %s\" waits for its end", s.Name, kind, state, program, s.Name)
}

// whereTo says who has the results of a Scan that were removed from the cluster.
func whereTo(s *executionv1.Scan) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionResultsStored); c != nil && c.Status == metav1.ConditionFalse {
		return strings.TrimSuffix(c.Message, ".")
	}
	return "they were removed after they were forwarded"
}

// reached reports whether a state is beyond the phase that stores a result.
func reached(s *executionv1.Scan, kind Kind) bool {
	switch s.Status.State {
	case executionv1.ScanStateScanCompleted, executionv1.ScanStateParsing:
		return kind == Raw
	case executionv1.ScanStateParseCompleted, executionv1.ScanStateHookProcessing, executionv1.ScanStateDone,
		executionv1.ScanStateLegacyReadAndWriteHookProcessing, executionv1.ScanStateLegacyReadAndWriteHookCompleted,
		executionv1.ScanStateLegacyReadOnlyHookProcessing:
		return true
	case executionv1.ScanStateNew, executionv1.ScanStateScanning, executionv1.ScanStateErrored:
	}
	return false
}

// explain returns a message with a remedy for the error of a download. The message never has the link's query.
func (r *Reader) explain(err error, scan *executionv1.Scan, kind Kind, link string) error {
	host := "object storage"
	if parsed, parseErr := url.Parse(link); parseErr == nil && parsed.Host != "" {
		host = "object storage at " + parsed.Host
	}
	what := fmt.Sprintf("%s of Scan %s", kind, scan.Name)
	if errors.Is(err, errChanged) {
		return fmt.Errorf("the %s in %s are not those that the Scan's status names: another client has written there after the parser, or the last hook "+
			"that changes findings, had stored them; find out who, then run the parser again (kubectl annotate scan %s --overwrite scanyard.io/rerun=parser)",
			what, host, scan.Name)
	}
	if status, ok := errors.AsType[*transfer.StatusError](err); ok {
		switch status.Code {
		case http.StatusNotFound:
			return fmt.Errorf("the %s cannot be read: %s does not have it any more; perhaps a lifecycle rule of the bucket has removed it: %w", what, host, status)
		case http.StatusForbidden:
			return fmt.Errorf(
				"the %s cannot be read: %s refuses a fresh link; the operator's credentials may not read the bucket, or clocks differ by many minutes: %w",
				what, host, status,
			)
		}
		return fmt.Errorf("the %s cannot be read: %s: %w", what, host, status)
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf(
			"the %s cannot be read: the certificate of %s is not trusted here (%w): add its authority to this machine, or name a file with it in SSL_CERT_FILE",
			what, host, certificate.Err,
		)
	}
	// Only the text is kept: an error of the network would be taken for an error of the connection to the API server.
	var cause string
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		cause = dns.Error()
	} else if operation, ok := errors.AsType[*net.OpError](err); ok {
		cause = operation.Error()
	} else {
		return fmt.Errorf("the %s cannot be read from %s: %w", what, host, err)
	}
	remedy := "If its name is one for the inside of the cluster only, who runs the operator sets s3.publicEndpoint of its chart to one that you reach, " +
		"and fresh links have it; until then forward a port (kubectl port-forward) and give --connect-to localhost:PORT"
	if r.options.ConnectTo != "" {
		remedy = fmt.Sprintf("--connect-to %s was tried: does the port-forward run?", r.options.ConnectTo)
	}
	return fmt.Errorf("%s cannot be reached from here, so the %s cannot be read: %s. %s", host, what, cause, remedy)
}
