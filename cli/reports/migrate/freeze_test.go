// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestFreezeEndsByItself holds what keeps a freeze short when nobody is there to end it.
func TestFreezeEndsByItself(t *testing.T) {
	job, policy, binding := freezeObjects(&groups[1], "scanyard", "manager-x")
	if *job.Spec.Parallelism != 0 || *job.Spec.TTLSecondsAfterFinished != 0 || *job.Spec.ActiveDeadlineSeconds*int64(time.Second) >= int64(20*time.Second) {
		t.Errorf("the Job is %+v", job.Spec)
	}
	if freezeWork >= freezeTime {
		t.Error("writes could pass while the switch is made")
	}
	if ref := binding.Spec.ParamRef; ref.Namespace != job.Namespace || ref.Name != job.Name || *ref.ParameterNotFoundAction != admissionv1.AllowAction {
		t.Errorf("without the Job the policy refuses: %+v", ref)
	}
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	if rule.APIGroups[0] != "openreports.io" || rule.APIVersions[0] != "*" || len(rule.Operations) != 3 {
		t.Errorf("rule %+v", rule)
	}
	if !strings.Contains(policy.Spec.Validations[0].Expression, "'manager-x'") || policy.Spec.Validations[0].Message != policyMessage {
		t.Errorf("validation %+v", policy.Spec.Validations[0])
	}
}

// TestSwitched holds that one write makes an APIService ours, and keeps what others have written beside it.
func TestSwitched(t *testing.T) {
	server := &reportsServer{namespace: "scanyard", service: "reports", port: 8443, caBundle: "Y2E="}
	local := object(t, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1alpha2.wgpolicyk8s.io","resourceVersion":"7",
		"labels":{"kube-aggregator.kubernetes.io/automanaged":"true","keep":"me"},"annotations":{"keep":"me"}},
		"spec":{"group":"wgpolicyk8s.io","version":"v1alpha2","groupPriorityMinimum":1500,"versionPriority":17},"status":{"conditions":[]}}`)
	for name, existing := range map[string]*unstructured.Unstructured{"Local": local, "Absent": nil} {
		t.Run(name, func(t *testing.T) {
			got := switched(existing, &groups[0], server)
			if who, _ := ownerOf(got, server); who != ownerOurs {
				t.Errorf("owner %d", who)
			}
			if got.GetLabels()[automanagedLabel] != "" || got.GetAnnotations()[managedAnnotation] != "true" || got.GetAnnotations()[serviceAnnotation] != "scanyard/reports" {
				t.Errorf("metadata %v", got.Object["metadata"])
			}
			if bundle, _, _ := unstructured.NestedString(got.Object, "spec", "caBundle"); bundle != "Y2E=" || got.GetName() != "v1alpha2.wgpolicyk8s.io" {
				t.Errorf("spec %v", got.Object["spec"])
			}
			if existing == nil {
				return
			}
			priority, _, _ := unstructured.NestedInt64(got.Object, "spec", "versionPriority")
			if priority != 17 || got.GetLabels()["keep"] != "me" || got.GetAnnotations()["keep"] != "me" || got.GetResourceVersion() != "7" {
				t.Errorf("what others have written is lost: %v", got.Object)
			}
		})
	}
	if who, foreign := ownerOf(switched(nil, &groups[0], &reportsServer{namespace: "kyverno", service: "reports-server"}), server); who != ownerForeign || foreign != "kyverno/reports-server" {
		t.Errorf("owner %d, %s", who, foreign)
	}
	if who, _ := ownerOf(local, server); who != ownerLocal {
		t.Errorf("owner %d", who)
	}
}
