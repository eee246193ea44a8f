// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/registry/internal/config"
)

// Source reads settings.
type Source struct {
	config *config.Config
	cache  cache.Cache
	// direct has no cache: Namespaces are read where a weight asks for their labels, and not watched.
	direct client.Reader

	mu     sync.Mutex
	served bool
}

// NewSource returns a Source. As long as Watch has not found the kinds of settings, they are not asked for.
func NewSource(c *config.Config, cached cache.Cache, direct client.Reader) *Source {
	return &Source{config: c, cache: cached, direct: direct}
}

// Watch waits until the kinds of settings are served, and tells of each change of them until ctx ends.
func (s *Source) Watch(ctx context.Context, every <-chan time.Time, changed func(context.Context)) error {
	for {
		err := s.subscribe(ctx, changed)
		if err == nil {
			<-ctx.Done()
			return nil
		}
		if !meta.IsNoMatchError(err) && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every:
		}
	}
}

func (s *Source) subscribe(ctx context.Context, changed func(context.Context)) error {
	tell := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed(ctx) }, DeleteFunc: func(any) { changed(ctx) },
		UpdateFunc: func(before, now any) {
			a, ok := before.(client.Object)
			b, also := now.(client.Object)
			if !ok || !also || a.GetResourceVersion() != b.GetResourceVersion() {
				changed(ctx)
			}
		},
	}
	for _, kind := range []client.Object{&settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}} {
		informer, err := s.cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch settings: %w", err)
		}
		if _, err := informer.AddEventHandler(tell); err != nil {
			return fmt.Errorf("watch settings: %w", err)
		}
	}
	s.mu.Lock()
	s.served = true
	s.mu.Unlock()
	changed(ctx)
	return nil
}

// Limits are those of a namespace.
func (s *Source) Limits(ctx context.Context, namespace string) (Limits, error) {
	s.mu.Lock()
	served := s.served
	s.mu.Unlock()
	stored := Settings{}
	if !served {
		return Of(s.config, namespace, stored), nil
	}
	cluster, own := &settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}
	found, err := get(ctx, s.cache, client.ObjectKey{Name: settingsv1alpha2.Name}, cluster)
	if err != nil {
		return Limits{}, err
	}
	if found {
		stored.Cluster = cluster
	}
	if found, err = get(ctx, s.cache, client.ObjectKey{Namespace: namespace, Name: settingsv1alpha2.Name}, own); err != nil {
		return Limits{}, err
	}
	if found {
		stored.Own = own
	}
	// A controller for some namespaces may not read Namespaces.
	if asksLabels(stored.Cluster) && len(s.config.Namespaces) == 0 {
		n := &corev1.Namespace{}
		if _, err := get(ctx, s.direct, client.ObjectKey{Name: namespace}, n); err != nil {
			return Limits{}, err
		}
		stored.Labels = n.Labels
	}
	return Of(s.config, namespace, stored), nil
}

func get(ctx context.Context, from client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := from.Get(ctx, key, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read settings: %w", err)
	}
	return err == nil, nil
}
