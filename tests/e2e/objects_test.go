// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// parserImage is the project's parser, whatever its tag.
const parserImage = "docker.io/scanyard/parser:e2e"

// resultPath is where the scanner of shellType leaves its result.
const resultPath = "/home/securecodebox/result"

// shellType is a ScanType whose scanner runs the Scan's first parameter as a script.
func shellType(namespace, resultType string, edit ...func(*batchv1.JobSpec)) *executionv1.ScanType {
	t := &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sh"}}
	t.Spec = shellSpec(resultType, edit...)
	return t
}

func shellSpec(resultType string, edit ...func(*batchv1.JobSpec)) executionv1.ScanTypeSpec {
	limit := int32(3)
	job := batchv1.JobSpec{
		BackoffLimit: &limit,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers:    []corev1.Container{{Name: "scanner", Image: "docker.io/e2e/sh", Command: []string{"/bin/sh", "-ec"}}},
		}},
	}
	for _, f := range edit {
		f(&job)
	}
	return executionv1.ScanTypeSpec{
		ExtractResults: executionv1.ExtractResults{Type: resultType, Location: resultPath},
		JobTemplate:    batchv1.Job{Spec: job},
	}
}

func never(j *batchv1.JobSpec) { j.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }

// once fails a Job with its first pod.
func once(j *batchv1.JobSpec) {
	never(j)
	zero := int32(0)
	j.BackoffLimit = &zero
}

// parser is a ParseDefinition with the project's parser.
func parser(namespace, resultType string) *executionv1.ParseDefinition {
	return &executionv1.ParseDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: resultType},
		Spec:       executionv1.ParseDefinitionSpec{Image: parserImage},
	}
}

// hook is a ScanCompletionHook whose image is one of the tests'.
func hook(namespace, name, image string, kind executionv1.HookType, priority int) *executionv1.ScanCompletionHook {
	return &executionv1.ScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"hook": name}},
		Spec:       executionv1.ScanCompletionHookSpec{Type: kind, Priority: priority, Image: "docker.io/e2e/" + image},
	}
}

// shellScan is a Scan of shellType.
func shellScan(namespace, name, script string) *executionv1.Scan {
	return scans.New(namespace, name, "sh", script)
}

// quick is a script that leaves a result for the parser of test-txt.
const quick = "touch " + resultPath

// onlyHooks restricts a Scan to the hooks of one Helm release; "" means none.
func onlyHooks(s *executionv1.Scan, release string) *executionv1.Scan {
	if release == "" {
		release = "none"
	}
	s.Spec.HookSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/instance": release}}
	return s
}

// nmapXML is a result of nmap with open ports of one host.
func nmapXML(ports ...string) string {
	var out strings.Builder
	out.WriteString(`<?xml version="1.0"?><nmaprun scanner="nmap" args="nmap" start="1700000000" version="7.95"><host><status state="up" reason="user-set"/>` +
		`<address addr="192.0.2.1" addrtype="ipv4"/><ports>`)
	for _, p := range ports {
		fmt.Fprintf(&out, `<port protocol="tcp" portid="%s"><state state="open" reason="syn-ack"/><service name="http" method="table" conf="3"/></port>`, p)
	}
	out.WriteString(`</ports></host><runstats><finished time="1700000001" elapsed="1" exit="success"/><hosts up="1" down="0" total="1"/></runstats></nmaprun>`)
	return out.String()
}
