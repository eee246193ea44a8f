// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// round is how often the Secret is read. What another replica has written is served at most so much later.
	round = 30 * time.Second
	// tries bound how often a round begins anew because another replica was faster.
	tries = 5
)

// Options say which certificate is kept, and where.
type Options struct {
	Client            kubernetes.Interface
	Namespace, Secret string
	// Hosts are the names that kube-apiserver calls the server by.
	Hosts []string
	Clock clock.WithTicker
}

// Keeper serves the certificate in a Secret and renews it. It is a dynamiccertificates.CertKeyContentProvider and its
// ControllerRunner: the generic server runs the Keeper.
type Keeper struct {
	options Options

	mu        sync.RWMutex
	served    *material
	listeners []dynamiccertificates.Listener
}

var (
	_ dynamiccertificates.CertKeyContentProvider = (*Keeper)(nil)
	_ dynamiccertificates.ControllerRunner       = (*Keeper)(nil)
)

// New returns a Keeper that has nothing to serve before its first RunOnce.
func New(o Options) *Keeper { return &Keeper{options: o} }

// Name is for logs.
func (k *Keeper) Name() string {
	return "Secret " + k.options.Namespace + "/" + k.options.Secret
}

// CurrentCertKeyContent returns what to serve with, PEM.
func (k *Keeper) CurrentCertKeyContent() (cert, key []byte) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.served == nil {
		return nil, nil
	}
	return k.served.leaf.CertPEM, k.served.leaf.KeyPEM
}

// CABundle returns what clients have to trust, PEM. While authorities change it holds both.
func (k *Keeper) CABundle() []byte {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.served == nil {
		return nil
	}
	return k.served.bundle()
}

// Expires is when the certificate that is served ends; the zero time while there is none.
func (k *Keeper) Expires() time.Time {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.served == nil {
		return time.Time{}
	}
	return k.served.leaf.Cert.NotAfter
}

// AddListener has a listener told of changes of the certificate and of the bundle.
func (k *Keeper) AddListener(l dynamiccertificates.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(k.listeners, l)
}

// Run keeps the certificate until the context ends. The number of workers is not used.
func (k *Keeper) Run(ctx context.Context, _ int) {
	ticker := k.options.Clock.NewTicker(round)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if err := k.RunOnce(ctx); err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "Certificate is not kept; the last one is served on")
			}
		}
	}
}

// RunOnce reads the Secret, does what is due, and serves the outcome.
func (k *Keeper) RunOnce(ctx context.Context) error {
	for range tries {
		m, err := k.ensure(ctx)
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			continue // another replica was faster: take what it has written
		}
		if err != nil {
			return fmt.Errorf("keep %s: %w", k.Name(), err)
		}
		k.serve(m)
		return nil
	}
	return fmt.Errorf("keep %s: others keep changing it", k.Name())
}

// ensure returns what the Secret holds after the steps that are due.
func (k *Keeper) ensure(ctx context.Context) (*material, error) {
	secrets := k.options.Client.CoreV1().Secrets(k.options.Namespace)
	secret, err := secrets.Get(ctx, k.options.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.options.Namespace, Name: k.options.Secret}}
	} else if err != nil {
		return nil, err
	}
	m, name, err := decide(parse(secret), k.options.Hosts, k.options.Clock.Now())
	if err != nil || name == "" {
		return m, err
	}
	fill(secret, m)
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("the Secret is missing, and only an upgrade of the chart may make it: %w", err)
		}
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Certificate changed", "secret", k.Name(), "step", name, "expires", m.leaf.Cert.NotAfter, "authorities", len(m.trusted))
	return m, nil
}

// serve takes what the Secret holds into use and tells the listeners when it is new.
func (k *Keeper) serve(m *material) {
	k.mu.Lock()
	same := k.served != nil && bytes.Equal(k.served.leaf.CertPEM, m.leaf.CertPEM) && bytes.Equal(k.served.bundle(), m.bundle())
	k.served = m
	listeners := k.listeners
	k.mu.Unlock()
	if same {
		return
	}
	for _, l := range listeners {
		l.Enqueue()
	}
}
