// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestTeamsPatchesDoNotReachTheNode: what a ScanSetting may not add, a ClusterScanSetting may; and
// what the ScanType has already does not concern the patch.
func TestTeamsPatchesDoNotReachTheNode(t *testing.T) {
	pod := func(edit func(*corev1.PodSpec)) *batchv1.Job {
		j := &batchv1.Job{}
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nmap", Image: "nmap", SecurityContext: &corev1.SecurityContext{}}}
		j.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{}
		if edit != nil {
			edit(&j.Spec.Template.Spec)
		}
		return j
	}
	context := func(edit func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { edit(p.Containers[0].SecurityContext) }
	}
	add := func(c corev1.Capability) func(*corev1.PodSpec) {
		return context(func(s *corev1.SecurityContext) { s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{c}} })
	}
	unmasked := corev1.UnmaskedProcMount
	for name, tc := range map[string]struct {
		edit func(*corev1.PodSpec)
		// want is the field; "" where Pod Security is the bound.
		want string
	}{
		"Privileged": {context(func(s *corev1.SecurityContext) { s.Privileged = new(true) }), "nmap.securityContext.privileged"},
		"SysAdmin":   {add("SYS_ADMIN"), "nmap.securityContext.capabilities.add"},
		"All":        {add("ALL"), "nmap.securityContext.capabilities.add"},
		"NetRaw":     {add("NET_RAW"), ""},
		"ProcMount":  {context(func(s *corev1.SecurityContext) { s.ProcMount = &unmasked }), "nmap.securityContext.procMount"},
		"Seccomp": {context(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}), "nmap.securityContext.seccompProfile"},
		"AppArmor": {context(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}), "nmap.securityContext.appArmorProfile"},
		"SELinuxType": {context(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }), "nmap.securityContext.seLinuxOptions.type"},
		"SELinuxUser": {context(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{User: "u"} }), "nmap.securityContext.seLinuxOptions"},
		"HostProcess": {context(func(s *corev1.SecurityContext) {
			s.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
		}), "hostProcess"},
		"HostPort": {func(p *corev1.PodSpec) { p.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, "nmap.ports.hostPort"},
		"HostPath": {func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, "volumes.root"},
		"HostNetwork":    {func(p *corev1.PodSpec) { p.HostNetwork = true }, "spec.hostNetwork"},
		"NodeName":       {func(p *corev1.PodSpec) { p.NodeName = "control-plane" }, "spec.nodeName"},
		"SystemCritical": {func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }, "spec.priorityClassName"},
		"OwnPriority":    {func(p *corev1.PodSpec) { p.PriorityClassName = "batch" }, ""},
		"Sysctl":         {func(p *corev1.PodSpec) { p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax"}} }, "spec.securityContext.sysctls"},
		"SafeSysctl": {func(p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies"}}
		}, ""},
		"PodUnconfined": {func(p *corev1.PodSpec) {
			p.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}, "spec.securityContext.seccompProfile"},
		"Root": {context(func(s *corev1.SecurityContext) { s.RunAsUser = new(int64(0)) }), ""},
		"NewContainer": {func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "new", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		}, "initContainers.new.securityContext.privileged"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rules{tenant: true}.guard(pod(nil), pod(tc.edit))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "cluster admin")):
				t.Errorf("%v, want a refusal of %s", err, tc.want)
			}
			if err := (rules{}).guard(pod(nil), pod(tc.edit)); err != nil {
				t.Errorf("the cluster's settings may not: %v", err)
			}
			if err := (rules{tenant: true}).guard(pod(tc.edit), pod(tc.edit)); err != nil {
				t.Errorf("what is there already is held against the patch: %v", err)
			}
		})
	}
	listed := rules{tenant: true, allowed: Allowed{hostPath: true}}
	host := func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}
	if err := listed.guard(pod(nil), pod(host)); err != nil {
		t.Errorf("the cluster lists hostPath: %v", err)
	}
}
