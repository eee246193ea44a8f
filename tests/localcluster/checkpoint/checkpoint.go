// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	dialTimeout = 10 * time.Second
	// maxOperations is how many writes one transaction has; etcd takes 128.
	maxOperations = 100
	// leases are renewed by the API server all the time: a lease that was there goes on.
	leases = "/registry/leases/"
)

// Save writes down all objects of a running cluster. A later Save replaces the checkpoint.
func Save(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	etcd, err := connect(s)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	defer func() { _ = etcd.Close() }() // nothing is in flight
	stored, err := read(ctx, etcd)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.WriteFile(l.Checkpoint(), raw, 0o600); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// Rollback makes the objects of a running cluster those of the last Save, and empties the S3 server.
func Rollback(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	raw, err := os.ReadFile(l.Checkpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(`roll back: the cluster has no checkpoint: make one with "localcluster checkpoint"`)
	}
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	var wanted map[string][]byte
	if err := json.Unmarshal(raw, &wanted); err != nil {
		return fmt.Errorf("roll back: read %s: %w", l.Checkpoint(), err)
	}
	etcd, err := connect(s)
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	defer func() { _ = etcd.Close() }() // nothing is in flight
	stored, err := read(ctx, etcd)
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if err := write(ctx, etcd, changes(stored, wanted)); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	if err := emptyStore(l, s.ObjectStore.Bucket); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// change is a key that must be written, or deleted where Value is nil.
type change struct {
	key   string
	value []byte
}

// changes returns what leads from the stored keys to the wanted ones.
func changes(stored, wanted map[string][]byte) []change {
	var all []change
	for key := range stored {
		if _, ok := wanted[key]; !ok {
			all = append(all, change{key: key})
		}
	}
	for key, value := range wanted {
		now, there := stored[key]
		if there && (bytes.Equal(now, value) || strings.HasPrefix(key, leases)) {
			continue
		}
		all = append(all, change{key: key, value: value})
	}
	return all
}

func connect(s *localcluster.State) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://127.0.0.1:%d", s.Ports.Etcd)}, DialTimeout: dialTimeout})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return c, nil
}

// read returns all keys; a test cluster has some hundreds.
func read(ctx context.Context, etcd *clientv3.Client) (map[string][]byte, error) {
	resp, err := etcd.Get(ctx, "/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	all := make(map[string][]byte, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		all[string(kv.Key)] = kv.Value
	}
	return all, nil
}

func write(ctx context.Context, etcd *clientv3.Client, all []change) error {
	for len(all) > 0 {
		n := min(len(all), maxOperations)
		ops := make([]clientv3.Op, n)
		for i, c := range all[:n] {
			ops[i] = clientv3.OpDelete(c.key)
			if c.value != nil {
				ops[i] = clientv3.OpPut(c.key, string(c.value))
			}
		}
		if _, err := etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
			return fmt.Errorf("write etcd: %w", err)
		}
		all = all[n:]
	}
	return nil
}

// emptyStore removes all buckets with what is known of them, and makes the cluster's own anew: a bucket is a folder.
func emptyStore(l localcluster.Layout, bucket string) error {
	for _, pattern := range []string{"objects/*", "metadata/*"} {
		found, err := filepath.Glob(filepath.Join(l.S3Data(), pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("empty the S3 server: %w", err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(l.S3Data(), "objects", bucket), 0o700); err != nil {
		return fmt.Errorf("empty the S3 server: %w", err)
	}
	return nil
}
