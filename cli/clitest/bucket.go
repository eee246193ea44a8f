// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"context"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// Bucket stores the results of a test's Scans. It makes links as the operator does.
type Bucket struct {
	client *minio.Client
	name   string
}

// NewBucket returns the bucket of a cluster, whose links lead to an endpoint, host:port.
func NewBucket(s testcluster.Storage, endpoint string) (*Bucket, error) {
	c, err := minio.New(endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return nil, err
	}
	return &Bucket{c, s.Bucket}, nil
}

// Presign returns a link to a file of a Scan for one method. The link expires.
func (b *Bucket) Presign(ctx context.Context, method string, s *executionv1.Scan, file string, expiry time.Duration) (string, error) {
	u, err := b.client.Presign(ctx, method, b.name, "scan-"+string(s.UID)+"/"+file, expiry, nil)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
