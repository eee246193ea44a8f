// SPDX-License-Identifier: Apache-2.0

// Package referrers wakes the objects that refer to one that has changed.
//
// An index of a kind holds, for each of its objects, what the object refers to, as Key says it. Enqueue asks that index when an
// object is created or changed, so that nobody waits longer than needed and nobody else is looked at.
package referrers

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Key is the value of an index for a reference to an object.
func Key(kind, name string) string { return kind + "/" + name }

// Values are the values of an index for an object that has one, or none if it is empty.
func Values(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// Enqueue enqueues the objects of a list's kind that refer to the object of the event, by their index. Objects in a namespace wake
// referrers of their namespace only, objects of the cluster those of all namespaces. newList makes an empty list.
func Enqueue(c client.Reader, index, kind string, newList func() client.ObjectList) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		options := []client.ListOption{
			client.MatchingFields{index: Key(kind, o.GetName())}, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency,
		}
		if o.GetNamespace() != "" {
			options = append(options, client.InNamespace(o.GetNamespace()))
		}
		list := newList()
		var requests []reconcile.Request
		err := c.List(ctx, list, options...)
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				referrer, err := meta.Accessor(item)
				if err == nil {
					requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: referrer.GetNamespace(), Name: referrer.GetName()}})
				}
				return err
			})
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List the objects that refer to another one", "index", index, "kind", kind, "name", o.GetName())
		}
		return requests
	})
}
