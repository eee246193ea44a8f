// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/podkit/redact"
)

// DownloadExpiry is how long the links in the status of a Scan are valid: the longest time that SigV4
// allows.
const DownloadExpiry = 7 * 24 * time.Hour

const (
	defaultTimeout = 30 * time.Second
	// deleteBatch is how many keys one S3 call may delete.
	deleteBatch = 1000
)

// Error says that the storage could not be used. A later retry may succeed.
type Error struct {
	// Doing is the operation that failed.
	Doing string
	Err   error
}

// Error names the operation and the cause, without credentials.
func (e *Error) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Store hands out presigned URLs and removes objects. It is safe for concurrent use.
type Store struct {
	client  *minio.Client
	bucket  string
	layout  *Layout
	timeout time.Duration
	observe func(operation string, err error)
	// public is the endpoint of links for people; nil if it is that of the client.
	public *url.URL
	lookup minio.BucketLookupType

	// tenants and the fields below are for results in other places.
	tenants   Tenants
	newClient func(*credentials.Credentials) (*minio.Client, error)
	clients   clients
}

// Option changes a Store.
type Option func(*Store)

// WithObserver calls f after every call to the storage, for metrics.
func WithObserver(f func(operation string, err error)) Option {
	return func(s *Store) { s.observe = f }
}

// New returns a Store. It does not call the storage.
func New(c Config, options ...Option) (*Store, error) {
	layout, err := NewLayout(c.urlTemplate())
	if err != nil {
		return nil, fmt.Errorf("S3_URL_TEMPLATE: %w", err)
	}
	transport, err := newTransport(c)
	if err != nil {
		return nil, err
	}
	creds := credentials.NewStaticV4(c.AccessKey, c.SecretKey, "")
	if c.usesIAM() {
		creds = credentials.NewIAM(c.STS)
	}
	lookup := minio.BucketLookupAuto
	switch c.PathStyle {
	case "true":
		lookup = minio.BucketLookupPath
	case "false":
		lookup = minio.BucketLookupDNS
	}
	newClient := func(creds *credentials.Credentials) (*minio.Client, error) {
		return minio.New(c.address(), &minio.Options{
			Creds: creds, Secure: c.UseSSL, Region: c.Region, BucketLookup: lookup, Transport: transport, MaxRetries: 3,
		})
	}
	client, err := newClient(creds)
	if err != nil {
		return nil, fmt.Errorf("S3_ENDPOINT %q: %w", c.address(), err)
	}
	s := &Store{client: client, bucket: c.Bucket, layout: layout, timeout: c.Timeout, observe: func(string, error) {}, newClient: newClient, lookup: lookup}
	if c.PublicEndpoint != "" {
		if s.public, err = parsePublic(c.PublicEndpoint); err != nil {
			return nil, fmt.Errorf("S3_PUBLIC_ENDPOINT %q: %w", c.PublicEndpoint, err)
		}
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

func newTransport(c Config) (*http.Transport, error) {
	t, err := minio.DefaultTransport(c.UseSSL)
	if err != nil {
		return nil, err
	}
	if c.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("S3_CA_FILE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("S3_CA_FILE %s holds no PEM certificate", c.CAFile)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// PresignUpload returns a URL to PUT a file of a Scan to.
func (s *Store) PresignUpload(ctx context.Context, o Owner, filename string, expiry time.Duration) (string, error) {
	return s.presign(ctx, http.MethodPut, o, filename, expiry)
}

// PresignDownload returns a URL to GET a file of a Scan from.
func (s *Store) PresignDownload(ctx context.Context, o Owner, filename string, expiry time.Duration) (string, error) {
	return s.presign(ctx, http.MethodGet, o, filename, expiry)
}

func (s *Store) presign(ctx context.Context, method string, o Owner, filename string, expiry time.Duration) (string, error) {
	key, err := s.layout.Key(o, filename)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, o)
	if err != nil {
		return "", err
	}
	// Signing is local, except for the first call, which may ask for the bucket's region, and for
	// credentials that are fetched.
	u, err := at.client.Presign(ctx, method, at.bucket, at.prefix+key, expiry, nil)
	s.observe("presign", err)
	if err != nil {
		return "", &Error{"presign " + method, redact.Error(err)}
	}
	return u.String(), nil
}

// Exists reports whether a file of a Scan is stored.
func (s *Store) Exists(ctx context.Context, o Owner, filename string) (bool, error) {
	_, found, err := s.Modified(ctx, o, filename)
	return found, err
}

// Modified reports whether a file of a Scan is stored, and since when by the clock of the storage.
func (s *Store) Modified(ctx context.Context, o Owner, filename string) (time.Time, bool, error) {
	object, found, err := s.Stat(ctx, o, filename)
	return object.LastModified, found, err
}

// Object is the metadata of a stored file.
type Object struct {
	// ETag identifies the content of the file.
	ETag         string
	Size         int64
	LastModified time.Time
}

// Stat reports whether a file of a Scan is stored, and returns its metadata.
func (s *Store) Stat(ctx context.Context, o Owner, filename string) (Object, bool, error) {
	key, err := s.layout.Key(o, filename)
	if err != nil {
		return Object{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, o)
	if err != nil {
		return Object{}, false, err
	}
	info, err := at.client.StatObject(ctx, at.bucket, at.prefix+key, minio.StatObjectOptions{})
	if isMissing(err) {
		s.observe("stat", nil)
		return Object{}, false, nil
	}
	s.observe("stat", err)
	if err != nil {
		return Object{}, false, &Error{"look for " + filename, redact.Error(err)}
	}
	return Object{ETag: info.ETag, Size: info.Size, LastModified: info.LastModified}, true, nil
}

// Read returns a file of a Scan that has at most limit bytes; false if there is none, or if it is larger.
func (s *Store) Read(ctx context.Context, o Owner, filename string, limit int64) ([]byte, bool, error) {
	key, err := s.layout.Key(o, filename)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, o)
	if err != nil {
		return nil, false, err
	}
	text, err := readObject(ctx, at, at.prefix+key, limit)
	if isMissing(err) {
		err, text = nil, nil
	}
	s.observe("get", err)
	if err != nil {
		return nil, false, &Error{"read " + filename, redact.Error(err)}
	}
	return text, text != nil && int64(len(text)) <= limit, nil
}

// Write stores a file of a Scan.
func (s *Store) Write(ctx context.Context, o Owner, filename string, text []byte) error {
	key, err := s.layout.Key(o, filename)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, o)
	if err != nil {
		return err
	}
	_, err = at.client.PutObject(ctx, at.bucket, at.prefix+key, bytes.NewReader(text), int64(len(text)), minio.PutObjectOptions{ContentType: "application/json"})
	s.observe("put", err)
	if err != nil {
		return &Error{"store " + filename, redact.Error(err)}
	}
	return nil
}

// readObject reads at most one byte more than limit.
func readObject(ctx context.Context, at place, key string, limit int64) ([]byte, error) {
	object, err := at.client.GetObject(ctx, at.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(object, limit+1))
	if err != nil {
		_ = object.Close() // the error of reading says more
		return nil, err
	}
	return text, object.Close()
}

// OwnsFolder reports whether everything below one prefix belongs to a Scan, see Layout.Prefix.
func (s *Store) OwnsFolder(o Owner) bool {
	_, ok := s.layout.Prefix(o)
	return ok
}

// Remove removes all stored objects of a Scan: everything below its prefix, or, if the URL template
// gives it none, its raw result, findings and counts. The files in last are removed after all others. Missing objects are not
// an error.
func (s *Store) Remove(ctx context.Context, o Owner, rawResultFile string, last ...string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, o)
	if err != nil {
		return err
	}
	files := []string{rawResultFile, executionv1.FindingsFile, executionv1.ScannerLogFile, outcome.CategoriesFile, handover.ExceptionsFile}
	if prefix, ok := s.layout.Prefix(o); ok {
		prefix, files = at.prefix+prefix, nil
		err := s.removePrefix(ctx, at, prefix, last)
		s.observe("remove", err)
		if err != nil {
			return &Error{"remove " + prefix, err}
		}
	}
	files = append(slices.DeleteFunc(files, func(f string) bool { return slices.Contains(last, f) }), last...)
	for _, f := range files {
		key, err := s.layout.Key(o, f)
		if _, noName := errors.AsType[*names.FileError](err); noName {
			continue // nothing can be stored under it
		}
		if err != nil {
			return err
		}
		err = at.client.RemoveObject(ctx, at.bucket, at.prefix+key, minio.RemoveObjectOptions{})
		if isMissing(err) {
			err = nil
		}
		s.observe("remove", err)
		if err != nil {
			return &Error{"remove " + f, redact.Error(err)}
		}
	}
	return nil
}

// removePrefix lists the objects, with their versions if the bucket keeps versions, and removes them, except some files.
func (s *Store) removePrefix(ctx context.Context, at place, prefix string, except []string) error {
	batch := make(chan minio.ObjectInfo, deleteBatch)
	var listErr error
	go func() {
		defer close(batch)
		for object := range at.client.ListObjectsIter(ctx, at.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if object.Err != nil {
				listErr = object.Err
				return
			}
			if slices.Contains(except, strings.TrimPrefix(object.Key, prefix)) {
				continue
			}
			select {
			case batch <- object:
			case <-ctx.Done():
				listErr = ctx.Err()
				return
			}
		}
	}()
	var errs []error
	for e := range at.client.RemoveObjects(ctx, at.bucket, batch, minio.RemoveObjectsOptions{}) {
		if !isMissing(e.Err) {
			errs = append(errs, fmt.Errorf("remove %s: %w", e.ObjectName, redact.Error(e.Err)))
		}
	}
	// RemoveObjects ends when batch is closed, so the lister has ended too.
	if listErr != nil {
		errs = append(errs, fmt.Errorf("list %s: %w", prefix, redact.Error(listErr)))
	}
	return errors.Join(errs...)
}

// Check returns an error if the storage cannot be used: it must respond, know the bucket and accept our
// credentials. Credentials that may not read objects outside of scans are fine.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := checkBucket(ctx, s.client, s.bucket, "S3_BUCKET")
	s.observe("check", err)
	if err != nil {
		return fmt.Errorf("bucket %q at %s: %w", s.bucket, s.client.EndpointURL().Host, redact.Error(err))
	}
	return nil
}

// checkBucket checks a bucket; setting is the name of the setting that names the bucket.
func checkBucket(ctx context.Context, c *minio.Client, bucket, setting string) error {
	exists, err := c.BucketExists(ctx, bucket)
	if err == nil && !exists {
		return fmt.Errorf("the bucket does not exist; create it or set %s", setting)
	}
	if minio.ToErrorResponse(err).Code != minio.AccessDenied {
		return err
	}
	// HEAD has no body: only a call that returns one shows whether the keys are wrong, or whether a right
	// is missing that we do not need.
	for object := range c.ListObjectsIter(ctx, bucket, minio.ListObjectsOptions{MaxKeys: 1}) {
		if object.Err != nil && minio.ToErrorResponse(object.Err).Code != minio.AccessDenied {
			return object.Err
		}
		break
	}
	return nil
}

func isMissing(err error) bool {
	return err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey
}
