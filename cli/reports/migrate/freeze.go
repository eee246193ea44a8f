// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// policyName is the policy that refuses writes, its binding and its Job.
	policyName = "scanyard-reports-migration"
	// policyMessage is the message for refused writers.
	policyMessage = "reports are being moved, try again in seconds"
	// freezeTime is when the cluster ends the freeze, if this process does not. With what the cluster needs to notice it
	// stays below 20 s.
	freezeTime = 17 * time.Second
	// freezeWork is how long a freeze may be used: after it, writes may pass.
	freezeWork = 14 * time.Second
	// freezes is how often a freeze is tried that was too short.
	freezes = 3
	// unfreezeTime bounds the removal of the policy.
	unfreezeTime = 15 * time.Second
)

// freezeObjects are what refuses writes to a group, but for those of a field manager whose name is secret.
func freezeObjects(g *group, namespace, manager string) (*batchv1.Job, *admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	meta := metav1.ObjectMeta{Name: policyName, Labels: map[string]string{"app.kubernetes.io/managed-by": "scanyard"}}
	// The Job has no pods. It fails by its deadline and is deleted then, by the cluster and without this process.
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policyName, Labels: meta.Labels},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](0), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0),
			ActiveDeadlineSeconds: ptr.To(int64(freezeTime / time.Second)), TTLSecondsAfterFinished: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "none", Image: "none.invalid/none"}},
			}},
		},
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			ParamKind:     &admissionv1.ParamKind{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{g.name}, APIVersions: []string{"*"}, Resources: []string{"*"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("(has(request.options.fieldManager) && request.options.fieldManager == '%s') || "+
					"(has(params.status.conditions) && params.status.conditions.exists(c, c.status == 'True'))", manager),
				Message: policyMessage, Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			ParamRef: &admissionv1.ParamRef{Namespace: namespace, Name: policyName, ParameterNotFoundAction: ptr.To(admissionv1.AllowAction)},
		},
	}
	return job, policy, binding
}
