// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/names"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() { sink.Register("s3", Open) }

// Bounds. S3 takes parts from 5 MiB on.
const (
	partBytes       = 8 << 20
	segmentBytes    = 16 << 20
	segmentAge      = 5 * time.Minute
	maxRuns         = 16
	defaultTimeout  = 30 * time.Second
	defaultEndpoint = "https://s3.amazonaws.com"
	day             = 24 * time.Hour
	windowBytes     = 1 << 20
)

// Sink writes into one bucket.
type Sink struct {
	core           minio.Core
	http           *http.Client
	trust          *trust.Client
	encoder        *zstd.Encoder
	bucket, prefix string
	lock           time.Duration // 0: objects are not locked
	proves         bool
	timeout        time.Duration
	part           int
	now            func() time.Time

	mu        sync.Mutex
	runs      map[string]*run
	conflicts map[string]bool     // runs whose closing record does not agree with what the bucket has
	segments  map[string]*segment // by stream
	swept     map[string]time.Time
}

// Open makes the sink. It does not connect.
func Open(config sink.Config) (sink.Sink, error) {
	s := &Sink{
		bucket: config.URL.Host, prefix: strings.Trim(config.URL.Path, "/"), proves: config.Options["provesStorage"] != "false", timeout: config.Timeout,
		part: partBytes, now: time.Now, //nolint:forbidigo // a sink is opened by its configuration alone
		runs: map[string]*run{}, conflicts: map[string]bool{}, segments: map[string]*segment{}, swept: map[string]time.Time{},
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	if days := config.Options["objectLock"]; days != "" {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("sink %s: objectLock must be a number of days, such as 30", config.Name)
		}
		s.lock = time.Duration(n) * day
	}
	endpoint, err := endpointOf(config)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	secure := endpoint.Scheme == "https"
	s.trust = trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: !secure, Dial: config.Dial,
		Expires: config.Expires, Now: s.now,
	})
	s.http = s.trust.HTTP()
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.New(keys{s.trust}), Secure: secure, Region: config.Options["region"], BucketLookup: lookup(config, endpoint),
		Transport: s.http.Transport, MaxRetries: 1, // whoever delivers tries again
	})
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	client.SetAppInfo("scanyard-forwarding", config.Version)
	s.core = minio.Core{Client: client}
	s.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	return s, nil
}

// endpointOf reads the option endpoint.
func endpointOf(config sink.Config) (*url.URL, error) {
	text := config.Options["endpoint"]
	if text == "" {
		text = defaultEndpoint
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("the endpoint must be a URL such as https://s3.example.com:443")
	}
	if u.Scheme == "http" && !config.Insecure {
		return nil, fmt.Errorf("the endpoint would send findings in plain text: use https, or say insecure where that is meant")
	}
	return u, nil
}

// lookup says where the bucket is named: in the host, which an address cannot have, or in the path.
func lookup(config sink.Config, endpoint *url.URL) minio.BucketLookupType {
	if _, err := netip.ParseAddr(endpoint.Hostname()); err == nil || config.Options["pathStyle"] == "true" {
		return minio.BucketLookupPath
	}
	return minio.BucketLookupDNS
}

// Deliver puts the records of a batch into their object.
func (s *Sink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var outcome sink.Outcome
	var err error
	if batch.Stream.GetKind() == forwardingv1.StreamKind_STREAM_KIND_DECISIONS {
		outcome, err = s.decisions(ctx, batch)
	} else {
		outcome, err = s.scan(ctx, batch)
	}
	if err != nil {
		return sink.Outcome{}, s.failed(ctx, err)
	}
	return outcome, nil
}

// below is the prefix of a stream's keys.
func (s *Sink) below(stream *forwardingv1.StreamId) string {
	return path.Join(s.prefix, names.Directory(stream))
}

// lines gives the records as lines, and those that no line can be made of.
func lines(stream *forwardingv1.StreamId, records []sink.Record) (data []byte, taken []sink.Record, rejected []sink.Rejection) {
	for _, record := range records {
		line, err := cloudevent.Append(nil, stream, record)
		if err != nil {
			rejected = append(rejected, sink.Rejection{EventID: record.EventID, Reason: "Malformed", Message: err.Error()})
			continue
		}
		data, taken = append(append(data, line...), '\n'), append(taken, record)
	}
	return data, taken, rejected
}

// Probe asks for the bucket.
func (s *Sink) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return s.failed(ctx, err)
	}
	if !found {
		return &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: "there is no bucket " + s.bucket + ": create it"}
	}
	return nil
}

// Proof compares what the closing object of a run says with the object that the bucket has.
func (s *Sink) Proof(ctx context.Context, stream *forwardingv1.StreamId) (sink.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	key := path.Join(s.below(stream), names.Run(stream))
	s.mu.Lock()
	conflict, present := s.conflicts[key], s.runs[key]
	s.mu.Unlock()
	if conflict {
		return sink.Verdict{Completeness: forwardingv1.Completeness_COMPLETENESS_CONFLICT}, nil
	}
	if present != nil {
		return present.verdict(), nil
	}
	held, _, err := s.held(ctx, key)
	if err != nil {
		return sink.Verdict{}, s.failed(ctx, err)
	}
	if held == nil {
		return sink.Verdict{Proved: s.proves, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN}, nil
	}
	return sink.Verdict{
		Proved: s.proves, Completeness: forwardingv1.Completeness_COMPLETENESS_COMPLETE, Records: held.Records, Chain: held.Chain, HighestSequence: held.Records,
	}, nil
}

// Close ends connections. What is not whole is begun anew by the next one.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.runs {
		r.mu.Lock()
		upload := r.upload
		r.mu.Unlock()
		delete(s.runs, key)
		if upload == "" {
			continue
		}
		if err := s.abandon(key, upload); err != nil {
			return err
		}
	}
	s.http.CloseIdleConnections()
	return s.encoder.Close()
}
