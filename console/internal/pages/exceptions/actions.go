// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
)

// change changes an exception and goes back to its page.
func change(q *web.Request, do func(*kept) error) (string, error) {
	k, err := read(q)
	if err != nil {
		return "", err
	}
	before, ok := k.Object.DeepCopyObject().(client.Object)
	if !ok {
		return "", fmt.Errorf("copy %T: it is not an object", k.Object)
	}
	if err := do(&k); err != nil {
		return "", err
	}
	if err := q.Viewer.Patch(q.Context(), k.Object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("change exception: %w", err)
	}
	return path(k.Namespace, k.Name), nil
}

// extend moves the end of an exception, or brings one back that has ended.
func (p *pages) extend(q *web.Request) (string, error) {
	return change(q, func(k *kept) error {
		end, err := endOf(q.PostFormValue("expires"), q.Now)
		if err != nil {
			return &web.Problem{Code: http.StatusUnprocessableEntity, Title: "This is not an end.", Text: err.Error() + ".", Remedy: "Go back and choose a day ahead."}
		}
		k.Spec.ExpiresAt = end
		return nil
	})
}

// end ends an exception now. The object stays, so that it can be seen later what was excepted, and why.
func (p *pages) end(q *web.Request) (string, error) {
	return change(q, func(k *kept) error {
		if k.PhaseAt(q.Now) == exception.Expired {
			return &web.Problem{Code: http.StatusConflict, Title: "This exception has ended already."}
		}
		now := metav1.NewTime(q.Now.UTC().Truncate(time.Second))
		k.Spec.ExpiresAt = &now
		if k.Spec.NotBefore != nil && !k.Spec.NotBefore.Before(&now) {
			k.Spec.NotBefore = nil // one that has not begun ends nevertheless
		}
		return nil
	})
}

func (p *pages) remove(q *web.Request) (string, error) {
	k, err := read(q)
	if err != nil {
		return "", err
	}
	uid := k.Object.GetUID()
	if err := q.Viewer.Delete(q.Context(), k.Object, client.Preconditions{UID: &uid}); err != nil {
		return "", fmt.Errorf("delete exception: %w", err)
	}
	return "/exceptions", nil
}
