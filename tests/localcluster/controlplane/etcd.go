// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/scanyard/scanyard/tests/localcluster"
)

// RunEtcd runs a single-member etcd on the cluster's ports.
func RunEtcd(ctx context.Context, l localcluster.Layout, s *localcluster.State) error {
	client := loopback("http", s.Ports.Etcd)
	peer := loopback("http", s.Ports.EtcdPeer)
	c := embed.NewConfig()
	c.Dir = l.EtcdData()
	c.Logger = "zap"
	c.LogLevel = "warn"
	c.LogOutputs = []string{"stderr"}
	c.UnsafeNoFsync = true
	c.QuotaBackendBytes = 8 << 30
	c.SnapshotCount = 100_000
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return fmt.Errorf("run etcd: %w", err)
	case <-e.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func loopback(scheme string, port int) url.URL {
	return url.URL{Scheme: scheme, Host: fmt.Sprintf("127.0.0.1:%d", port)}
}
