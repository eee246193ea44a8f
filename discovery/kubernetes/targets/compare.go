// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// compare says whether a ScheduledScan has to be written, and whether it is to be scanned
// at once.
func (s *search) compare(have *Existing, want *executionv1.ScheduledScan) (restart, changed bool) {
	kind, _ := have.Target()
	if s.ExistingScans == config.KeepExisting {
		if kind != KindService || maps.Equal(have.Labels, want.Labels) {
			return false, false
		}
		return true, true
	}
	if !Differs(have, want) {
		return false, false
	}
	return hasNewVersion(have.Labels, want.Labels), true
}

// hasNewVersion says whether the digests differ. Where there are none yet, as on what
// secureCodeBox has made on nodes with containerd, nothing is known to be new.
func hasNewVersion(have, want map[string]string) bool {
	before, now := DigestsOf(have), DigestsOf(want)
	return len(before) > 0 && !maps.Equal(before, now)
}

// DigestsOf are the labels that hold digests.
func DigestsOf(labels map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range labels {
		if strings.HasPrefix(k, DigestPrefix) {
			all[k] = v
		}
	}
	return all
}

// Differs says whether a ScheduledScan is not what it should be. What others have added,
// such as spec.suspend, or a label of another tool, is theirs and no difference.
func Differs(have *Existing, want *executionv1.ScheduledScan) bool {
	switch {
	case !subset(want.Labels, have.Labels), !subset(want.Annotations, have.Annotations), !hasOwner(have, want),
		!slices.Equal(want.Spec.ScanSpec.Parameters, have.parameters()),
		!equality.Semantic.DeepDerivative(want.Spec, have.Spec):
		return true
	}
	return len(StrayLabels(have, want)) > 0 || ownsMore(have, want)
}

func subset(want, have map[string]string) bool {
	for k, v := range want {
		if other, ok := have[k]; !ok || other != v {
			return false
		}
	}
	return true
}

// StrayLabels are labels that only a discovery sets and that are not wanted any longer.
func StrayLabels(have *Existing, want *executionv1.ScheduledScan) []string {
	var all []string
	for k := range have.Labels {
		if _, ok := want.Labels[k]; !ok && isOurKey(k) {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

func hasOwner(have *Existing, want *executionv1.ScheduledScan) bool {
	for _, w := range want.OwnerReferences {
		if !slices.ContainsFunc(have.OwnerReferences, func(h metav1.OwnerReference) bool { return h.UID == w.UID }) {
			return false
		}
	}
	return true
}

func (e *Existing) parameters() []string {
	if e.Spec.ScanSpec == nil {
		return nil
	}
	return e.Spec.ScanSpec.Parameters
}

// ownsMore says whether we have set fields before that we want no longer.
func ownsMore(have *Existing, want *executionv1.ScheduledScan) bool {
	if have.Owned == nil {
		return false
	}
	fields, err := Applied(want)
	if err != nil {
		return true // writing it shows what is wrong
	}
	more := false
	have.Owned.Leaves().Iterate(func(p fieldpath.Path) { more = more || !hasPath(fields, p) })
	return more
}

// hasPath says whether a field is set. Below a list there is nothing to look for: lists
// are compared as a whole.
func hasPath(value any, path fieldpath.Path) bool {
	for _, e := range path {
		if e.FieldName == nil {
			return true
		}
		fields, ok := value.(map[string]any)
		if !ok {
			return true
		}
		if value, ok = fields[*e.FieldName]; !ok {
			return false
		}
	}
	return true
}

// Applied are the fields that we set.
func Applied(o *executionv1.ScheduledScan) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return fields, nil
}

// OwnedBy reads from managedFields what a field manager has set by apply.
func OwnedBy(o metav1.Object, manager string) (owned *fieldpath.Set, ours bool) {
	for _, m := range o.GetManagedFields() {
		if m.Manager != manager || m.Subresource != "" {
			continue
		}
		ours = true
		if m.Operation != metav1.ManagedFieldsOperationApply || m.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(m.FieldsV1.GetRawReader()); err == nil {
			owned = set
		}
	}
	return owned, ours
}

// RestartTime is what status.lastScheduleTime is set to, to have a run at once: longer
// ago than the interval, as in secureCodeBox.
func RestartTime(o *executionv1.ScheduledScan, now time.Time) time.Time {
	interval, err := time.ParseDuration(o.Spec.Interval)
	if err != nil {
		interval = 0 // a cron expression: any earlier time does
	}
	return now.Add(-interval - 24*time.Hour)
}
