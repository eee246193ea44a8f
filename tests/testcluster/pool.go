// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// pool is a folder of clusters that packages of tests use one after another, since a cluster costs more to start than most
// packages cost to test. A cluster is given back as it was lent: with the objects of its start, and an empty S3 server.
// A package has its cluster to itself. Whoever made the folder stops the clusters in it at the end ("localcluster down").
type pool string

// lease is the right to use one cluster of a pool.
type lease struct {
	lock *os.File
	// used is a file that is there while the cluster is not as it was at its start.
	used string
	// groups is a file with the API groups that the cluster served at its start.
	groups string
}

// forgets is how long the API server may take to serve no more what the tests had installed.
const forgets = 20 * time.Second

// lend returns a cluster that nobody else uses, and starts one where all are in use.
func (p pool) lend(ctx context.Context, binary string) (*Cluster, error) {
	for n := 1; ; n++ {
		dir := filepath.Join(string(p), strconv.Itoa(n))
		lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			if err := lock.Close(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		c := &Cluster{binary: binary, dir: dir, lease: &lease{lock: lock, used: dir + ".used", groups: dir + ".groups"}}
		if err := c.takeOver(ctx); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		return c, nil
	}
}

// takeOver has the cluster of a lease run as it was at its start.
func (c *Cluster) takeOver(ctx context.Context) error {
	_, unclean := os.Stat(c.lease.used)
	if unclean == nil {
		// The tests before ended in the midst of something: what runs is not known.
		if err := c.discard(ctx); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.lease.used, nil, 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(c.Kubeconfig()); err == nil {
		return errors.Join(c.connect(), c.readStorage())
	}
	if err := c.start(ctx); err != nil {
		return errors.Join(err, c.discard(ctx))
	}
	groups, err := c.served()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.lease.groups, []byte(groups), 0o600); err != nil {
		return err
	}
	_, err = c.run(ctx, "checkpoint")
	return err
}

// served names the API groups and versions that clients find.
func (c *Cluster) served() (string, error) {
	found, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return "", err
	}
	list, err := found.ServerGroups()
	if err != nil {
		return "", err
	}
	var names []string
	for i := range list.Groups {
		for _, v := range list.Groups[i].Versions {
			names = append(names, v.GroupVersion)
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n"), nil
}

// rollBack makes the cluster what it was at its start. The API server tells of kinds that are gone for a moment longer.
func (c *Cluster) rollBack(ctx context.Context) error {
	if _, err := c.run(ctx, "rollback"); err != nil {
		return err
	}
	want, err := os.ReadFile(c.lease.groups)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, forgets, true, func(context.Context) (bool, error) {
		got, err := c.served()
		return got == string(want), err
	})
}

// giveBack makes the cluster what it was at its start and lets others have it. A cluster that cannot be brought back ends.
func (c *Cluster) giveBack(ctx context.Context) error {
	err := c.rollBack(ctx)
	if err != nil {
		err = c.discard(ctx)
	}
	if err == nil {
		err = os.Remove(c.lease.used)
	}
	return errors.Join(err, c.lease.lock.Close())
}

// discard ends the cluster of a lease, if it runs, and removes its files.
func (c *Cluster) discard(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dir, "cluster.json")); err == nil {
		if _, err := c.run(ctx, "down"); err != nil {
			return fmt.Errorf("discard a cluster of the pool: %w", err)
		}
	}
	return os.RemoveAll(c.dir)
}
