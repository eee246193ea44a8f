// SPDX-License-Identifier: Apache-2.0

// Package storetest connects the store to the S3 server of a test's cluster.
package storetest

import (
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// Config is how a Store reaches the S3 server of a cluster.
func Config(c *testcluster.Cluster) store.Config {
	s := c.Storage
	return store.Config{Endpoint: s.Endpoint, Bucket: s.Bucket, Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: "true"}
}
