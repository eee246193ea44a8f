// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// exemptNamespace is where accounts are that the chart's policy over the status leaves alone.
const exemptNamespace = "e2e-exempt"

func statusPolicyValues() map[string]any {
	return map[string]any{"exempt": []any{"system:serviceaccount:" + exemptNamespace + ":other-*"}}
}

// statusWriter is a way to write a status. What is written is based on the Scan as it is given,
// and is refused as a conflict where somebody was faster.
type statusWriter func(ctx context.Context, c client.Client, s *executionv1.Scan, status map[string]any, o ...client.SubResourcePatchOption) (*executionv1.Scan, error)

func mergeStatus(ctx context.Context, c client.Client, s *executionv1.Scan, status map[string]any, o ...client.SubResourcePatchOption) (*executionv1.Scan, error) {
	return patchStatus(ctx, c, s, types.MergePatchType, map[string]any{"metadata": map[string]any{"resourceVersion": s.ResourceVersion}, "status": status}, o)
}

// replaceStatus writes as the DefectDojo hook of secureCodeBox does.
func replaceStatus(ctx context.Context, c client.Client, s *executionv1.Scan, status map[string]any, o ...client.SubResourcePatchOption) (*executionv1.Scan, error) {
	return patchStatus(ctx, c, s, types.JSONPatchType, []map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": s.ResourceVersion}, {"op": "replace", "path": "/status", "value": status},
	}, o)
}

func patchStatus(ctx context.Context, c client.Client, s *executionv1.Scan, kind types.PatchType, patch any, o []client.SubResourcePatchOption) (*executionv1.Scan, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	out := s.DeepCopy()
	return out, c.Status().Patch(ctx, out, client.RawPatch(kind, b), o...)
}

// putStatus replaces the whole object.
func putStatus(ctx context.Context, c client.Client, s *executionv1.Scan, status map[string]any, _ ...client.SubResourcePatchOption) (*executionv1.Scan, error) {
	b, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	out := s.DeepCopy()
	out.Status = executionv1.ScanStatus{}
	if err := json.Unmarshal(b, &out.Status); err != nil {
		return nil, err
	}
	return out, c.Status().Update(ctx, out)
}

// forgedStatus is a status of somebody who means no good, with findings to be taken.
func forgedStatus(count int64) map[string]any {
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	return map[string]any{
		"state": "Done", "rawResultFile": "forged.txt", "rawResultType": "forged", "finishedAt": now, "errorDescription": "forged", "observedGeneration": 99,
		"orderedHookStatuses": []any{[]any{map[string]any{"hookName": "forged", "state": "Pending", "jobName": "forged", "priority": 1, "type": "ReadOnly"}}},
		"conditions":          []any{map[string]any{"type": "Forged", "status": "True", "reason": "Forged", "message": "", "lastTransitionTime": now}},
		"findings":            map[string]any{"count": count, "severities": map[string]any{"high": count}, "categories": map[string]any{"Forged": count}},
	}
}

// wantFindingsOnly writes a status that is forged and wants all but its findings to stay as it is.
func wantFindingsOnly(ctx context.Context, c client.Client, s *executionv1.Scan, write statusWriter, count int64) {
	GinkgoHelper()
	before, after := writeStatus(ctx, c, s, write, forgedStatus(count))
	if got := scans.Count(after); got != count || after.Status.Findings.FindingCategories["Forged"] != count {
		Fail(fmt.Sprintf("of %d findings that were written the status has %d: %+v", count, got, after.Status.Findings))
	}
	after.Status.Findings = before.Status.Findings
	Expect(after.Status).To(BeComparableTo(before.Status), "a pod has changed the status (-before +after)")
}

// writeStatus writes a status until nobody comes between, and returns the Scan before and after.
func writeStatus(ctx context.Context, c client.Client, s *executionv1.Scan, write statusWriter, status map[string]any, o ...client.SubResourcePatchOption) (before, after *executionv1.Scan) {
	GinkgoHelper()
	eventually(ctx, "the status to be written", func(ctx context.Context) (done bool, err error) {
		before = &executionv1.Scan{}
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(s), before); err != nil {
			return false, err
		}
		after, err = write(ctx, c, before, status, o...)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return true, err
	})
	return before, after
}

// wantTaken has somebody write a status who may, and wants all of it.
func wantTaken(ctx context.Context, who string, c client.Client, s *executionv1.Scan) {
	GinkgoHelper()
	_, after := writeStatus(ctx, c, s, mergeStatus, forgedStatus(7), client.DryRunAll)
	if after.Status.State != executionv1.ScanStateDone || after.Status.RawResultFile != "forged.txt" || scans.Count(after) != 7 || after.Status.Conditions[0].Type != "Forged" {
		Fail(fmt.Sprintf("what %s writes is reduced to %+v", who, after.Status))
	}
}

// mayWriteStatus lets an account write the status of the namespace's Scans.
func mayWriteStatus(ctx context.Context, ns, accountNamespace, account string) {
	GinkgoHelper()
	create(ctx,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{executionv1.SchemeGroupVersion.Group}, Resources: []string{"scans/status"}, Verbs: []string{"get", "update", "patch"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		})
}

var _ = Describe("The status policy", Label("policy"), func() {
	// With the chart's MutatingAdmissionPolicy nothing is stored of what
	// pods write into the status of a Scan but the findings, whichever way they write it, and their
	// requests succeed. The operator, people, and accounts that the chart's values name write all of it.
	It("stores nothing of what pods write into a status but the findings, and their requests succeed", func(ctx SpecContext) {
		ns := prepared(ctx)
		create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "writer"}})
		mayWriteStatus(ctx, ns, ns, "writer")
		mayWriteStatus(ctx, ns, exemptNamespace, "other-operator")
		mayWriteStatus(ctx, ns, exemptNamespace, "another")
		s, account, letGo := heldScan(ctx, ns, "held")
		until(ctx, s, "scan", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		pod, writer := withToken(ctx, ns, account), withToken(ctx, ns, "writer")
		eventually(ctx, "the policy to hold", func(ctx context.Context) (bool, error) {
			have := s.DeepCopy()
			err := pod.Status().Patch(ctx, have, client.RawPatch(types.MergePatchType, []byte(`{"status":{"errorDescription":"probe"}}`)), client.DryRunAll)
			return err == nil && have.Status.ErrorDescription == "", err
		})

		wantFindingsOnly(ctx, pod, s, mergeStatus, 1)
		wantFindingsOnly(ctx, pod, s, replaceStatus, 2)
		wantFindingsOnly(ctx, writer, s, mergeStatus, 3)
		wantFindingsOnly(ctx, writer, s, putStatus, 4)
		wantFindingsOnly(ctx, asAccount(exemptNamespace, "another"), s, mergeStatus, 5)

		// What says nothing of findings leaves them, and what takes everything away takes nothing.
		for _, status := range []map[string]any{{"state": "Errored"}, {}} {
			before, after := writeStatus(ctx, writer, s, replaceStatus, status)
			Expect(after.Status).To(BeComparableTo(before.Status), "writing %v has changed the status (-before +after)", status)
		}
		// The first status of a Scan is the operator's, too. It may be faster: then another try is made.
		eventually(ctx, "a Scan without a status to be written to", func(ctx context.Context) (bool, error) {
			empty, err := patchStatus(ctx, w.admin, s, types.JSONPatchType, []map[string]any{{"op": "remove", "path": "/status"}}, nil)
			if err != nil {
				return false, err
			}
			got, err := mergeStatus(ctx, writer, empty, forgedStatus(6), client.DryRunAll)
			if apierrors.IsConflict(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if count := scans.Count(got); count != 6 {
				Fail(fmt.Sprintf("of the findings of a first status %d are taken, want 6", count))
			}
			got.Status.Findings = executionv1.FindingStats{}
			Expect(got.Status).To(BeComparableTo(executionv1.ScanStatus{}), "a pod has begun a status")
			return true, nil
		})

		wantTaken(ctx, "a cluster admin", w.admin, s)
		wantTaken(ctx, "another cluster admin", as("somebody", "system:masters"), s)
		wantTaken(ctx, "the operator", asAccount(install.Namespace, "securecodebox-operator"), s)
		wantTaken(ctx, "an account of the chart's values", asAccount(exemptNamespace, "other-operator"), s)
		letGo()
		if got := wantDone(ctx, s); got.Status.RawResultFile != "result" {
			Fail(fmt.Sprintf("the raw result is called %s", got.Status.RawResultFile))
		}
	})
})
