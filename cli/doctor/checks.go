// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/session"
)

// wantedKinds are all kinds that this program works with.
var wantedKinds = []kindsOf{
	{executionv1.SchemeGroupVersion, []string{
		"Scan", "ScheduledScan", "ScanType", "ClusterScanType", "ParseDefinition", "ClusterParseDefinition", "ScanCompletionHook", "ClusterScanCompletionHook",
	}, true},
	{cascadingv1.SchemeGroupVersion, []string{"CascadingRule", "ClusterCascadingRule"}, true},
	{settingsv1alpha2.SchemeGroupVersion, []string{"ScanSetting", "ClusterScanSetting"}, false},
}

// checkServer asks for the version, which shows that the API server responds.
func checkServer(c kubernetes.Interface, s *session.Session) Result {
	v, err := c.Discovery().ServerVersion()
	if err != nil {
		return Result{"API server", Fail, s.Explain(err).Error(), "check the kubeconfig: kubectl cluster-info"}
	}
	return Result{"API server", OK, "Kubernetes " + v.GitVersion, ""}
}

// checkKinds checks which of our kinds are served.
func checkKinds(c kubernetes.Interface) Result {
	served := map[schema.GroupVersion][]string{}
	for _, w := range wantedKinds {
		list, err := c.Discovery().ServerResourcesForGroupVersion(w.version.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Result{"kinds", Fail, err.Error(), "a cluster admin looks at: kubectl get crds"}
		}
		for i := range list.APIResources {
			served[w.version] = append(served[w.version], list.APIResources[i].Kind)
		}
	}
	return resultOfKinds(wantedKinds, served)
}

// operatorLabel is on the pods of operators, as in secureCodeBox.
var operatorLabel = client.MatchingLabels{"control-plane": "securecodebox-controller-manager"}

// checkOperator looks for the operator's Deployment, which most users may not see.
func checkOperator(ctx context.Context, c client.Client, namespace string) Result {
	var list appsv1.DeploymentList
	err := c.List(ctx, &list, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) {
		return Result{"operator", Skip, "you may not see its Deployment; the test scan shows whether it works", ""}
	}
	if err != nil {
		return Result{"operator", Fail, err.Error(), ""}
	}
	var operators []appsv1.Deployment
	for i := range list.Items {
		if t := list.Items[i].Spec.Template.Labels; t["control-plane"] == operatorLabel["control-plane"] {
			operators = append(operators, list.Items[i])
		}
	}
	return resultOfOperator(operators)
}

const (
	groupExecution = "execution.securecodebox.io"
	groupCascading = "cascading.securecodebox.io"
	groupSettings  = "settings.scanyard.io"
)

// teamRights are what a team needs in its namespace.
var teamRights = []right{
	{verb: "get", group: groupExecution, resource: "scans", commands: "get, describe, findings, wait", role: "view"},
	{verb: "list", group: groupExecution, resource: "scans", commands: "get, queue, tree", role: "view"},
	{verb: "watch", group: groupExecution, resource: "scans", commands: "wait, scan --wait", role: "view"},
	{verb: "create", group: groupExecution, resource: "scans", commands: "scan", role: "edit"},
	{verb: "patch", group: groupExecution, resource: "scans", commands: "suspend, resume, cancel, retry", role: "edit"},
	{verb: "delete", group: groupExecution, resource: "scans", commands: "delete", role: "edit"},
	{verb: "list", group: groupExecution, resource: "scantypes", commands: "get types", role: "view"},
	{verb: "list", group: groupExecution, resource: "scheduledscans", commands: "get schedules", role: "view"},
	{verb: "patch", group: groupExecution, resource: "scheduledscans", commands: "suspend, resume", role: "edit"},
	{verb: "patch", group: groupExecution, resource: "scheduledscans", subresource: "status", commands: "trigger", role: "edit"},
	{verb: "list", group: groupCascading, resource: "cascadingrules", commands: "cascade explain, get rules", role: "view"},
	{verb: "get", group: groupSettings, resource: "scansettings", commands: "settings", role: "view", optional: true},
	{verb: "list", group: "batch", resource: "jobs", commands: "describe, logs", role: "view"},
	{verb: "watch", group: "batch", resource: "jobs", commands: "logs --follow, scan --follow", role: "view"},
	{verb: "list", resource: "pods", commands: "logs", role: "view"},
	{verb: "watch", resource: "pods", commands: "logs --follow, scan --follow", role: "view"},
	{verb: "get", resource: "pods", subresource: "log", commands: "logs", role: "view"},
	{verb: "list", resource: "events", commands: "describe", role: "view"},
	{verb: "list", group: groupExecution, resource: "clusterscantypes", clusterWide: true, commands: "scan --cluster-wide", optional: true},
}

// checkRights asks the API server what the user may do.
func checkRights(ctx context.Context, c kubernetes.Interface, namespace string) Result {
	rights := append([]right{}, teamRights...)
	for i := range rights {
		r := &rights[i]
		in := namespace
		if r.clusterWide {
			in = ""
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: in, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource},
		}}
		answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return Result{"rights", Skip, fmt.Sprintf("the API server does not say: %v", err), ""}
		}
		r.allowed = answer.Status.Allowed
	}
	return resultOfRights(namespace, rights)
}

// checkPodSecurity checks which namespaces have a level of the Pod Security Standards, and how the chart's policy
// restricts Scans where they have none. Most users may see neither.
func checkPodSecurity(ctx context.Context, c kubernetes.Interface, namespace string) Result {
	const why = "the API server does not say: "
	var namespaces []corev1.Namespace
	all, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		one, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return Result{checkLevels, Skip, "you may not see the labels of namespace " + namespace, ""}
		}
		if err != nil {
			return Result{checkLevels, Skip, why + err.Error(), ""}
		}
		namespaces = []corev1.Namespace{*one}
	case err != nil:
		return Result{checkLevels, Skip, why + err.Error(), ""}
	default:
		namespaces = all.Items
	}
	policies, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=scanyard"})
	if err != nil {
		// A server that is too old does not have the kind; a user without the right gets no result.
		return resultOfLevels(namespaces, policyUnknown)
	}
	return resultOfLevels(namespaces, policyOf(policies.Items))
}

// checkTypes lists the scan types of the namespace and of the cluster.
func checkTypes(ctx context.Context, c client.Client, namespace string) (v Result, local, cluster []string) {
	var types executionv1.ScanTypeList
	var clusterTypes executionv1.ClusterScanTypeList
	for _, l := range []struct {
		list client.ObjectList
		into *[]string
	}{{&types, &local}, {&clusterTypes, &cluster}} {
		err := c.List(ctx, l.list, client.InNamespace(namespace))
		if err != nil && !apierrors.IsForbidden(err) {
			return Result{"scan types", Fail, err.Error(), ""}, nil, nil
		}
		*l.into = session.Names(l.list)
	}
	return resultOfTypes(namespace, local, cluster), local, cluster
}
