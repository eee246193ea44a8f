// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/testworld"
)

// countingReader counts what is read past the cache.
type countingReader struct {
	client.Reader
	n atomic.Int64
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.n.Add(1)
	return c.Reader.Get(ctx, key, o, opts...)
}

// TestAccountsAreWatched: what has the same name in every namespace is read without a request, whether it is there or not; other names, and other
// namespaces, are asked for.
func TestAccountsAreWatched(t *testing.T) {
	w := newQuietWorld(t)
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "parser"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	}
	w.Create(account)
	mgr := w.NewManager(testworld.Manager{Namespaces: []string{w.Namespace}})
	live := &countingReader{Reader: mgr.GetAPIReader()}
	var accounts client.Reader
	w.Run(mgr, func(ctx context.Context) error {
		var err error
		accounts, err = rbac.NewReader(ctx, mgr, live, rbac.PerScan, []string{w.Namespace})
		return err
	})
	get := func(o client.Object, namespace, name string) (asked bool, err error) {
		before := live.n.Load()
		err = accounts.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
		return live.n.Load() > before, err
	}
	here, there, known := w.Namespace, "default", &corev1.ServiceAccount{}
	w.Eventually(func() bool { asked, err := get(known, here, "parser"); return !asked && err == nil }).Should(BeTrue())
	w.Expect(known.ImagePullSecrets).To(Equal(account.ImagePullSecrets))
	for _, o := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		w.Eventually(func() bool { asked, err := get(o, here, "lurker"); return !asked && apierrors.IsNotFound(err) }).Should(BeTrue(), "%T", o)
		for name, namespace := range map[string]string{"another": here, "lurker": there} {
			asked, err := get(o, namespace, name)
			w.Expect(asked && apierrors.IsNotFound(err)).To(BeTrue(), "%T %s/%s: %v", o, namespace, name, err)
		}
	}
	w.Expect(w.Client.Delete(w.Context(), account)).To(Succeed())
	w.Eventually(func() bool { asked, err := get(known, here, "parser"); return !asked && apierrors.IsNotFound(err) }).Should(BeTrue())
}
