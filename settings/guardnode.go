// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The fields that give a pod access to its node, after the level baseline of the Pod Security Standards. A
// team's patch may not add one: cluster admins let the team write settings, which does not include
// nodes. Fields that baseline allows, such as running as root, are left to Pod Security admission.

// podCapabilities are the capabilities of the level baseline, and those with which scanners open raw
// sockets, which reach only the pod's own network.
var podCapabilities = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// podSELinuxTypes are the types of containers.
var podSELinuxTypes = []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

// podSysctls change nothing outside of the pod.
var podSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

// reach is a set of ways to the node: the field, below the pod or container, and its value.
type reach map[string]string

// add adds a field if it is a way to the node.
func (r reach) add(is bool, field string, value string) {
	if is {
		r[field+"\x00"+value] = field
	}
}

// beyond returns the field of a way that before does not have, or "".
func (r reach) beyond(before reach) string {
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if _, had := before[key]; !had {
			return r[key]
		}
	}
	return ""
}

// containerReach are the ways of one container.
func containerReach(c *corev1.Container) reach {
	r := reach{}
	for _, p := range c.Ports {
		r.add(p.HostPort != 0, "ports.hostPort", "")
	}
	s := c.SecurityContext
	if s == nil {
		return r
	}
	r.add(ptr.Deref(s.Privileged, false), "securityContext.privileged", "")
	r.add(ptr.Deref(s.ProcMount, corev1.DefaultProcMount) != corev1.DefaultProcMount, "securityContext.procMount", "")
	if s.Capabilities != nil {
		for _, c := range s.Capabilities.Add {
			r.add(!slices.Contains(podCapabilities, c), "securityContext.capabilities.add", string(c))
		}
	}
	r.context(s.WindowsOptions, s.SeccompProfile, s.AppArmorProfile, s.SELinuxOptions)
	return r
}

// podReach are the ways of a pod apart from its containers and volumes.
func podReach(p *corev1.PodSpec) reach {
	r := reach{}
	r.add(p.HostNetwork, "hostNetwork", "")
	r.add(p.NodeName != "", "nodeName", p.NodeName)
	r.add(strings.HasPrefix(p.PriorityClassName, "system-"), "priorityClassName", p.PriorityClassName)
	r.add(p.Priority != nil, "priority", "")
	if s := p.SecurityContext; s != nil {
		for _, c := range s.Sysctls {
			r.add(!slices.Contains(podSysctls, c.Name), "securityContext.sysctls", c.Name)
		}
		r.context(s.WindowsOptions, s.SeccompProfile, s.AppArmorProfile, s.SELinuxOptions)
	}
	return r
}

// context adds the fields that the contexts of pods and of containers share.
func (r reach) context(
	windows *corev1.WindowsSecurityContextOptions, seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile, linux *corev1.SELinuxOptions,
) {
	r.add(windows != nil && ptr.Deref(windows.HostProcess, false), "securityContext.windowsOptions.hostProcess", "")
	r.add(seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined, "securityContext.seccompProfile", "")
	r.add(armor != nil && armor.Type == corev1.AppArmorProfileTypeUnconfined, "securityContext.appArmorProfile", "")
	if linux != nil {
		r.add(!slices.Contains(podSELinuxTypes, linux.Type), "securityContext.seLinuxOptions.type", linux.Type)
		r.add(linux.User != "" || linux.Role != "", "securityContext.seLinuxOptions", linux.User+"/"+linux.Role)
	}
}
