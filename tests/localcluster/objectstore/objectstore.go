// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"golang.org/x/sys/unix"

	"github.com/scanyard/scanyard/tests/localcluster"
)

// HealthPath answers 200 once the server takes requests.
const HealthPath = "/healthz-localcluster"

// The limits keep a burst of thousands of small uploads from being refused.
const (
	maxConnections = 10_000
	maxRequests    = 5_000
	maxFileActions = 256
)

// Run serves the objects below the data directory until ctx ends. It changes
// the working directory of the process, so it wants one of its own.
func Run(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	objects := filepath.Join(l.S3Data(), "objects")
	// A bucket is a folder; making it here spares a signed request at start.
	if err := os.MkdirAll(filepath.Join(objects, s.ObjectStore.Bucket), 0o700); err != nil {
		return fmt.Errorf("make bucket: %w", err)
	}
	store, opts, err := metadataStore(l.S3Data())
	if err != nil {
		return err
	}
	be, err := posix.New(objects, store, opts)
	if err != nil {
		return fmt.Errorf("open object folder: %w", err)
	}
	defer be.Shutdown()
	o := s.ObjectStore
	iam := auth.NewIAMServiceSingle(auth.Account{Access: o.AccessKey, Secret: o.SecretKey, Role: auth.RoleAdmin})
	root := middlewares.RootUserConfig{Access: o.AccessKey, Secret: o.SecretKey}
	srv, err := s3api.New(be, root, o.Region, iam, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithHealth(HealthPath),
		s3api.WithConcurrencyLimiter(maxConnections, maxRequests))
	if err != nil {
		return fmt.Errorf("configure S3 server: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.ServeMultiPort([]string{o.Endpoint}) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve S3: %w", err)
	case <-ctx.Done():
		return srv.ShutDown()
	}
}

// metadataStore picks extended attributes if a probe file can carry one.
func metadataStore(data string) (meta.MetadataStorer, posix.PosixOpts, error) {
	opts := posix.PosixOpts{Concurrency: maxFileActions}
	probe := filepath.Join(data, "xattr-probe")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return nil, opts, fmt.Errorf("probe extended attributes: %w", err)
	}
	attrErr := unix.Setxattr(probe, "user.localcluster", []byte("1"), 0)
	if err := os.Remove(probe); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, opts, fmt.Errorf("probe extended attributes: %w", err)
	}
	if attrErr == nil {
		return meta.XattrMeta{}, opts, nil
	}
	dir := filepath.Join(data, "metadata")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, opts, fmt.Errorf("make metadata folder: %w", err)
	}
	sidecar, err := meta.NewSideCar(dir)
	if err != nil {
		return nil, opts, fmt.Errorf("open metadata folder: %w", err)
	}
	opts.SideCarDir = dir
	return sidecar, opts, nil
}
