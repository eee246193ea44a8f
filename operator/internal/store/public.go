// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/scanyard/scanyard/podkit/redact"
)

// parsePublic reads S3_PUBLIC_ENDPOINT. A path is refused: the store would have to serve buckets below the path, and would
// see another path than the signed one.
func parsePublic(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil:
		return nil, fmt.Errorf("must be https://host or http://host, with an optional port")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("must end behind the host or its port")
	}
	return u, nil
}

// PresignLink returns a URL for people to GET or HEAD a file of a Scan: at the public endpoint, if one is set. Pods use the
// URLs of PresignDownload.
func (s *Store) PresignLink(ctx context.Context, method string, o Owner, filename string, expiry time.Duration) (string, error) {
	if s.public == nil {
		return s.presign(ctx, method, o, filename, expiry)
	}
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
	link, err := s.presignPublic(ctx, method, at, key, expiry)
	s.observe("presign", err)
	if err != nil {
		return "", &Error{"presign " + method, redact.Error(err)}
	}
	return link, nil
}

// presignPublic signs for the public endpoint, which may not be reachable from the cluster: region and credentials come
// from the other client.
func (s *Store) presignPublic(ctx context.Context, method string, at place, key string, expiry time.Duration) (string, error) {
	region, err := at.client.GetBucketLocation(ctx, at.bucket)
	if err != nil {
		return "", err
	}
	creds, err := at.client.GetCreds()
	if err != nil {
		return "", err
	}
	signer, err := minio.New(s.public.Host, &minio.Options{
		Creds:  credentials.NewStatic(creds.AccessKeyID, creds.SecretAccessKey, creds.SessionToken, creds.SignerType),
		Secure: s.public.Scheme == "https", Region: region, BucketLookup: s.lookup, Transport: noTransport{},
	})
	if err != nil {
		return "", err
	}
	u, err := signer.Presign(ctx, method, at.bucket, at.prefix+key, expiry, nil)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// noTransport makes sure that signing sends no request.
type noTransport struct{}

// RoundTrip refuses every request.
func (noTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("signing for %s needs no request", r.URL.Host)
}
