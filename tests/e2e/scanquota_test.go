// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// countScans is how a ResourceQuota calls the number of Scans.
const countScans = corev1.ResourceName("count/scans.execution.securecodebox.io")

var _ = Describe("The quota for Scans", Label("trouble"), func() {
	// A schedule and a cascade that it holds up say so in their status, and go on by themselves when
	// there is room.
	It("refuses what is too much with its own name and numbers, and lets go on what it has held up", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		chart(ctx, cascadingHook, ns, nil)
		// What the children scan with does not exist, so they cost nothing.
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"ports": starts(cascadingv1.MatchesRule{Category: "Open Port"}, "nothing", "{{attributes.port}}")})
		const atFirst, later = "3", "20"
		quota := scanQuota(ctx, ns, atFirst)
		full := "exceeded quota: " + quota.Name

		parent := cascadingOn(shellScan(ns, "many", "printf '%s' '"+nmapXML("1001", "1002", "1003", "1004")+"' >"+resultPath))
		create(ctx, parent)
		held := until(ctx, parent, "say that the quota holds its children up", func(s *executionv1.Scan) bool {
			return strings.Contains(scans.Ready(s).Message, full) || s.Settled()
		})
		Expect(scans.Ready(held).Message).To(ContainSubstring(full))
		err := w.admin.Create(ctx, scans.New(ns, "one-more", "nothing"))
		Expect(err).To(MatchError(apierrors.IsForbidden, "Forbidden"), "one Scan more")
		Expect(err).To(MatchError(And(ContainSubstring(full), ContainSubstring(string(countScans)+"="+atFirst))))
		scheduled := &executionv1.ScheduledScan{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "nightly"},
			Spec:       executionv1.ScheduledScanSpec{Interval: "24h", ScanSpec: &onlyHooks(shellScan(ns, "", "printf '%s' '"+nmapXML()+"' >"+resultPath), "").Spec},
		}
		create(ctx, scheduled)
		wantScheduled(ctx, scheduled, executionv1.ReasonScanRejected, full)

		Expect(w.admin.Patch(ctx, quota, setHard(countScans, later))).To(Succeed())
		wantDone(ctx, parent)
		wantScheduled(ctx, scheduled, executionv1.ReasonScheduled, "")
		Expect(childrenOf(ctx, parent)).To(Equal(4), "Scans that the cascade has started")
	})
})

// scanQuota makes the ResourceQuota that the chart renders for a namespace, and waits until it counts.
func scanQuota(ctx context.Context, ns, scansAtMost string) *corev1.ResourceQuota {
	GinkgoHelper()
	out, err := w.helm.Template(ctx, install.Release{Chart: "scanyard", Name: "scanyard", Namespace: install.Namespace, Values: map[string]any{
		"minio":     map[string]any{"enabled": false},
		"s3":        elsewhere,
		"scanQuota": map[string]any{"namespaces": []any{ns}, "hard": map[string]any{string(countScans): scansAtMost}},
	}}, "templates/scanquota.yaml")
	Expect(err).NotTo(HaveOccurred())
	made := documents(out)
	Expect(made).To(HaveLen(1), "quotas for one namespace")
	create(ctx, made[0])
	quota := typed[*corev1.ResourceQuota](made[0], &corev1.ResourceQuota{})
	if most := quota.Spec.Hard[countScans]; most.Cmp(resource.MustParse(scansAtMost)) != 0 || len(quota.Spec.Hard) < 2 {
		Fail(fmt.Sprintf("the quota is %v, want %s Scans beside the chart's other bounds", quota.Spec.Hard, scansAtMost))
	}
	untilCounted(ctx, quota)
	return quota
}

// untilCounted waits until Kubernetes counts Scans. It learns of CRDs from time to time, and counts
// for a quota that was there before only when that changes, or after five minutes; until then
// everything is refused.
func untilCounted(ctx context.Context, q *corev1.ResourceQuota) {
	GinkgoHelper()
	const other corev1.ResourceName = "count/cascadingrules.cascading.securecodebox.io"
	most := 200
	eventually(ctx, "the quota to count Scans", func(ctx context.Context) (bool, error) {
		var have corev1.ResourceQuota
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(q), &have)
		if _, counted := have.Status.Used[countScans]; counted || err != nil {
			return counted, err
		}
		most++
		return false, w.admin.Patch(ctx, &have, setHard(other, strconv.Itoa(most)))
	})
}

// setHard changes one bound of a quota.
func setHard(resource corev1.ResourceName, most string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"`+string(resource)+`":"`+most+`"}}}`))
}

// typed reads an object that was rendered as its Go type.
func typed[T any](o *unstructured.Unstructured, into T) T {
	GinkgoHelper()
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)).To(Succeed())
	return into
}

// wantScheduled waits until the condition of a ScheduledScan gives a reason and some words.
func wantScheduled(ctx context.Context, s *executionv1.ScheduledScan, reason, says string) {
	GinkgoHelper()
	var ready *metav1.Condition
	eventually(ctx, "the ScheduledScan to say "+reason, func(ctx context.Context) (bool, error) {
		var have executionv1.ScheduledScan
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(s), &have)
		ready = meta.FindStatusCondition(have.Status.Conditions, executionv1.ConditionReady)
		return ready != nil && ready.Reason == reason && strings.Contains(ready.Message, says), err
	}, &ready)
}

// childrenOf counts the Scans that a Scan has started.
func childrenOf(ctx context.Context, parent *executionv1.Scan) int {
	GinkgoHelper()
	var list executionv1.ScanList
	Expect(w.admin.List(ctx, &list, client.InNamespace(parent.Namespace))).To(Succeed())
	n := 0
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == parent.UID {
			n++
		}
	}
	return n
}
