// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/settings"
)

// Keys of a Secret that spec.storage.credentialsSecret names.
const (
	keyAccess = "accessKey"
	keySecret = "secretKey"
)

// believed is how long credentials are used before they are read again.
const believed = time.Minute

// Buckets decides which buckets the Scans of a namespace may use, and with which credentials. It is
// the argument of store.WithTenants.
type Buckets struct {
	source *Source
	// live reads the one Secret that a setting names; the operator may not list Secrets.
	live  client.Reader
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[types.NamespacedName]credentialsAt
}

type credentialsAt struct {
	credentials store.Credentials
	at          time.Time
}

// NewBuckets returns Buckets.
func NewBuckets(source *Source, live client.Reader, c clock.PassiveClock) *Buckets {
	return &Buckets{source: source, live: live, clock: c, known: map[types.NamespacedName]credentialsAt{}}
}

// MayUse decides whether results of a namespace may be stored in a place. A client can edit the
// annotation of a Scan that names the place: only the present settings of the cluster count.
func (b *Buckets) MayUse(ctx context.Context, namespace string, p store.Place) error {
	e, err := b.source.Effective(ctx, namespace)
	if err != nil {
		return err
	}
	return mayUse(e, p)
}

// mayUse reads the cluster's settings and not those of the namespace: the latter change, and are deleted
// before the last Scan of a deleted namespace, while results stay where they were written.
func mayUse(e *settings.Effective, p store.Place) error {
	if (p.Prefix != "" || p.CredentialsSecret != "") && !e.ChoosesPlace {
		return errors.New(
			"the cluster does not let namespaces choose where results lie: the cluster admin can set spec.storage.allowNamespaces of the ClusterScanSetting, " +
				"for as long as there are Scans with results there",
		)
	}
	if p.Bucket != "" && p.CredentialsSecret == "" && !slices.Contains(e.Buckets, p.Bucket) {
		return errors.New("is not in spec.storage.buckets of the ClusterScanSetting: the cluster admin can add it, for as long as there are Scans with results in it")
	}
	return nil
}

// Credentials reads the credentials in a Secret of a namespace.
func (b *Buckets) Credentials(ctx context.Context, namespace, secret string) (store.Credentials, error) {
	key := types.NamespacedName{Namespace: namespace, Name: secret}
	b.mu.Lock()
	known, ok := b.known[key]
	b.mu.Unlock()
	if ok && b.clock.Since(known.at) < believed {
		return known.credentials, nil
	}
	c, err := b.read(ctx, key)
	if err != nil {
		return c, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, v := range b.known {
		if b.clock.Since(v.at) >= believed {
			delete(b.known, k)
		}
	}
	b.known[key] = credentialsAt{c, b.clock.Now()}
	return c, nil
}

func (b *Buckets) read(ctx context.Context, key types.NamespacedName) (store.Credentials, error) {
	var s corev1.Secret
	err := b.live.Get(ctx, key, &s)
	switch {
	case apierrors.IsNotFound(err):
		return store.Credentials{}, fmt.Errorf("the Secret %s does not exist: create it with the keys %s and %s", key, keyAccess, keySecret)
	case apierrors.IsForbidden(err):
		return store.Credentials{}, fmt.Errorf(
			"the operator may not read the Secret %s: give its ServiceAccount a Role with get on secrets, resourceNames [%s], in namespace %s",
			key, key.Name, key.Namespace,
		)
	case err != nil:
		return store.Credentials{}, fmt.Errorf("get Secret %s: %w", key, err)
	}
	c := store.Credentials{AccessKey: string(s.Data[keyAccess]), SecretKey: string(s.Data[keySecret])}
	if c.AccessKey == "" || c.SecretKey == "" {
		return store.Credentials{}, fmt.Errorf("the Secret %s lacks the key %s or %s", key, keyAccess, keySecret)
	}
	return c, nil
}

// PlaceOf is the place of results that settings name.
func PlaceOf(s settings.Storage) store.Place {
	return store.Place{Bucket: s.Bucket, Prefix: s.Prefix, CredentialsSecret: s.CredentialsSecret}
}
