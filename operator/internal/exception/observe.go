// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/exception/validity"
)

// observe reads what the decision needs; nil if the exception is gone. A key without a namespace names an
// exception of the cluster.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*validity.Observation, error) {
	o := &validity.Observation{Now: r.clock.Now(), Admission: r.sealer != nil, Counted: r.target != nil}
	var stamped *stamp.Stamped
	kind := exception.Kind
	if key.Namespace != "" {
		o.Exception = &settingsv1alpha2.FindingException{}
		err := r.client.Get(ctx, key, o.Exception)
		if err == nil {
			stamped, err = stamp.Of(o.Exception)
		}
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	} else {
		kind, o.ClusterException = exception.ClusterKind, &settingsv1alpha2.ClusterFindingException{}
		err := r.client.Get(ctx, key, o.ClusterException)
		if err == nil {
			stamped, err = stamp.OfCluster(o.ClusterException)
		}
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	}
	o.Made = r.sealer.Last(stamped)
	if o.Counted {
		var err error
		if o.Matches, err = r.matches(ctx, key, kind); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// matches returns what ended Scans say of an exception.
func (r *Reconciler) matches(ctx context.Context, key types.NamespacedName, kind string) ([]validity.Match, error) {
	var uses executionv1.ScanList
	if err := r.list(ctx, &uses, key.Namespace, indexUses, kind+"/"+key.Name); err != nil {
		return nil, err
	}
	var all []validity.Match
	for i := range uses.Items {
		s := &uses.Items[i]
		var same executionv1.ScanList
		if err := r.list(ctx, &same, s.Namespace, indexTarget, r.target(s)); err != nil {
			return nil, err
		}
		latest := slices.MaxFunc(same.Items, func(a, b executionv1.Scan) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
		})
		for _, e := range s.Status.Findings.Exceptions {
			if e.Kind == kind && e.Name == key.Name {
				all = append(all, validity.Match{Findings: e.Count, Latest: s.UID == latest.UID, FinishedAt: s.Status.FinishedAt})
			}
		}
	}
	return all, nil
}

func (r *Reconciler) list(ctx context.Context, into *executionv1.ScanList, namespace, index, value string) error {
	err := r.client.List(ctx, into, client.InNamespace(namespace), client.MatchingFields{index: value},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list Scans that were matched: %w", err)
	}
	return nil
}
