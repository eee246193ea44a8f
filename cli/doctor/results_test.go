// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func check(t *testing.T, got Result, grade Grade, says, remedy string) {
	t.Helper()
	if got.Grade != grade || !strings.Contains(got.Says, says) || !strings.Contains(got.Remedy, remedy) {
		t.Errorf("got %+v; want %s with %q and remedy %q", got, grade, says, remedy)
	}
	if (got.Grade == Fail || got.Grade == Warn) && got.Remedy == "" {
		t.Errorf("%s has no remedy: %+v", got.Check, got)
	}
}

func TestResultOfKinds(t *testing.T) {
	gv := schema.GroupVersion{Group: "a", Version: "v1"}
	more := schema.GroupVersion{Group: "b", Version: "v1"}
	want := []kindsOf{{gv, []string{"Scan", "ScanType"}, true}, {more, []string{"ScanSetting"}, false}}
	for name, tc := range map[string]struct {
		served map[schema.GroupVersion][]string
		grade  Grade
		says   string
		remedy string
	}{
		"All":     {map[schema.GroupVersion][]string{gv: {"Scan", "ScanType", "X"}, more: {"ScanSetting"}}, OK, "3 of", ""},
		"Old":     {map[schema.GroupVersion][]string{gv: {"Scan", "ScanType"}}, Warn, "missing: ScanSetting", "kubectl apply --server-side"},
		"Missing": {map[schema.GroupVersion][]string{gv: {"Scan"}, more: {"ScanSetting"}}, Fail, "missing: ScanType", "kubectl apply --server-side"},
		"None":    {nil, Fail, "missing: Scan, ScanType, ScanSetting", "cluster admin"},
	} {
		t.Run(name, func(t *testing.T) { check(t, resultOfKinds(want, tc.served), tc.grade, tc.says, tc.remedy) })
	}
}

func TestResultOfOperator(t *testing.T) {
	deployment := func(name string, ready int32) appsv1.Deployment {
		return appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: name},
			Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "op:1"}}}}},
			Status:     appsv1.DeploymentStatus{ReadyReplicas: ready},
		}
	}
	for name, tc := range map[string]struct {
		deployments []appsv1.Deployment
		grade       Grade
		says        string
		remedy      string
	}{
		"Ready":    {[]appsv1.Deployment{deployment("a", 1)}, OK, "sys/a: 1 of 1 ready, image op:1", ""},
		"NotReady": {[]appsv1.Deployment{deployment("a", 0)}, Fail, "0 of 1", "kubectl -n sys logs deployment/a"},
		"Two":      {[]appsv1.Deployment{deployment("a", 1), deployment("b", 1)}, Warn, "sys/b", "more than one"},
		"None":     {nil, Fail, "no operator", "helm install scanyard"},
	} {
		t.Run(name, func(t *testing.T) { check(t, resultOfOperator(tc.deployments), tc.grade, tc.says, tc.remedy) })
	}
}

func TestResultOfLevels(t *testing.T) {
	namespace := func(name string, labels ...string) corev1.Namespace {
		n := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, l := range labels {
			n.Labels = map[string]string{"pod-security.kubernetes.io/enforce": l}
		}
		return n
	}
	open := []corev1.Namespace{namespace("team-b"), namespace("team-a"), namespace("levelled", "baseline"), namespace("kube-system")}
	var many []corev1.Namespace
	for i := range 12 {
		many = append(many, namespace(fmt.Sprintf("n%02d", i)))
	}
	for name, tc := range map[string]struct {
		namespaces []corev1.Namespace
		holds      policy
		grade      Grade
		says       string
		remedy     string
	}{
		"AllHaveOne": {open[2:], policyNone, OK, "each namespace", ""},
		"Auto":       {open, policyAuto, OK, "in: team-a, team-b; Scans of those who may not create pods", ""},
		"Always":     {open, policyAlways, OK, "scanPolicy.mode=always", ""},
		"Unknown":    {open, policyUnknown, Skip, "you may not see", ""},
		"Nothing":    {open, policyNone, Warn, "in: team-a, team-b; whoever may create Scans gets at the nodes", "kubectl label namespace"},
		"Many":       {many, policyNone, Warn, "n09 and 2 more", "scanPolicy.mode"},
	} {
		t.Run(name, func(t *testing.T) { check(t, resultOfLevels(tc.namespaces, tc.holds), tc.grade, tc.says, tc.remedy) })
	}
}

func TestPolicyOf(t *testing.T) {
	named := func(name string, conditions ...string) admissionv1.ValidatingAdmissionPolicy {
		p := admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, c := range conditions {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: c})
		}
		return p
	}
	for name, tc := range map[string]struct {
		policies []admissionv1.ValidatingAdmissionPolicy
		want     policy
	}{
		"None":   {nil, policyNone},
		"Other":  {[]admissionv1.ValidatingAdmissionPolicy{named("another")}, policyNone},
		"Auto":   {[]admissionv1.ValidatingAdmissionPolicy{named("x-scans", "spec-has-changed", conditionAuthor)}, policyAuto},
		"Always": {[]admissionv1.ValidatingAdmissionPolicy{named("x-scans", conditionAuthor), named("y-scans", "spec-has-changed")}, policyAlways},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policyOf(tc.policies); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestResultOfRights(t *testing.T) {
	all := func(but ...string) []right {
		rights := append([]right{}, teamRights...)
		for i := range rights {
			rights[i].allowed = true
			for _, b := range but {
				if rights[i].String() == b {
					rights[i].allowed = false
				}
			}
		}
		return rights
	}
	for name, tc := range map[string]struct {
		rights []right
		grade  Grade
		says   string
		remedy string
	}{
		"All":       {all(), OK, "all that a team needs in namespace blue", ""},
		"Viewer":    {all("create scans", "patch scans", "delete scans"), Warn, "you may not create scans, patch scans, delete scans; that is needed by: scan, suspend, resume, cancel, retry, delete", "--clusterrole=edit"},
		"NoLogs":    {all("get pods/log"), Warn, "needed by: logs", "--clusterrole=view"},
		"NothingAt": {all("get scans", "list scans"), Fail, "get scans", "--clusterrole=view"},
		"NoCluster": {all("list clusterscantypes"), Warn, "scan --cluster-wide", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := resultOfRights("blue", tc.rights)
			if got.Grade == Warn && got.Remedy == "" {
				got.Remedy = " " // what is of the cluster has no remedy in a namespace
			}
			check(t, got, tc.grade, tc.says, tc.remedy)
		})
	}
}

func TestResultOfTypes(t *testing.T) {
	check(t, resultOfTypes("blue", nil, nil), Warn, "no scanner is installed", "helm install nmap")
	check(t, resultOfTypes("blue", []string{"nmap"}, nil), OK, "1 in namespace blue, 0 for the whole cluster", "")
}

func TestResultOfScan(t *testing.T) {
	scan := func(state executionv1.ScanState, conditions ...metav1.Condition) *executionv1.Scan {
		return &executionv1.Scan{Status: executionv1.ScanStatus{State: state, Conditions: conditions}}
	}
	c := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "message of " + reason}
	}
	const yes, unknown, no = metav1.ConditionTrue, metav1.ConditionUnknown, metav1.ConditionFalse
	for name, tc := range map[string]struct {
		scan     *executionv1.Scan
		timedOut bool
		want     []Grade
		remedy   string
	}{
		"Done":       {scan(executionv1.ScanStateDone, c("Ready", yes, "Completed"), c("Scanned", yes, "Completed"), c("Parsed", yes, "Completed"), c("HooksCompleted", yes, "Completed")), false, []Grade{OK, OK, OK}, ""},
		"NoImage":    {scan(executionv1.ScanStateScanning, c("Ready", unknown, "ImagePullFailed"), c("Scanned", unknown, "ImagePullFailed")), true, []Grade{Fail, Skip, Skip}, "check the image"},
		"Slow":       {scan(executionv1.ScanStateScanning, c("Ready", unknown, "Running"), c("Scanned", unknown, "Running")), true, []Grade{Fail, Skip, Skip}, "--timeout"},
		"ParserFail": {scan(executionv1.ScanStateErrored, c("Ready", no, "ParserFailed"), c("Scanned", yes, "Completed"), c("Parsed", no, "ParserFailed")), false, []Grade{OK, Fail, Skip}, "docs/troubleshooting.md"},
		"NoOperator": {scan(""), true, []Grade{Fail, Skip, Skip}, "is the operator running"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, v := range resultsOfScan(tc.scan, tc.timedOut) {
				remedy := ""
				if v.Grade == Fail {
					remedy = tc.remedy
				}
				check(t, v, tc.want[i], "", remedy)
			}
		})
	}
}
