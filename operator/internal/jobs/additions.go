// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Additions are what the settings of a namespace add to its Jobs. The zero value adds nothing.
type Additions struct {
	// Scanner, Parser and Hook apply where ScanType and Scan, ParseDefinition or hook set nothing.
	Scanner, Parser, Hook Defaults
	// PullSecrets are added to the pull secrets of the pods.
	PullSecrets []string
	// Env is added to all containers except the lurker; variables that a container sets stay.
	Env []corev1.EnvVar
	// Proxy is the HTTP proxy to use.
	Proxy Proxy
	// TrustCA mounts the certificate of Config.CustomCA into all containers, and not only into the
	// containers of the contract.
	TrustCA bool
}

// Defaults are the defaults of one phase; nil sets nothing.
type Defaults struct {
	Resources          *corev1.ResourceRequirements
	SecurityContext    *corev1.SecurityContext
	PodSecurityContext *corev1.PodSecurityContext
}

// Proxy is an HTTP proxy and its exceptions; the zero value means no proxy.
type Proxy struct {
	HTTP, HTTPS string
	NoProxy     []string
}

// direct are the addresses that are always reached without a proxy: the API server, as client-go finds
// it, the Services of the cluster, and the pod itself. Kubernetes replaces the variable by the address.
var direct = []string{"localhost", "127.0.0.1", ".svc", ".svc.cluster.local", "$(KUBERNETES_SERVICE_HOST)"}

// env are the variables that programs read, some in upper and some in lower case.
func (p Proxy) env() []corev1.EnvVar {
	if p.HTTP == "" && p.HTTPS == "" {
		return nil
	}
	var env []corev1.EnvVar
	for _, v := range []corev1.EnvVar{
		{Name: "HTTP_PROXY", Value: p.HTTP},
		{Name: "HTTPS_PROXY", Value: p.HTTPS},
		{Name: "NO_PROXY", Value: strings.Join(slices.Concat(p.NoProxy, direct), ",")},
	} {
		if v.Value != "" {
			env = append(env, v, corev1.EnvVar{Name: strings.ToLower(v.Name), Value: v.Value})
		}
	}
	return env
}

// add puts the additions into a pod. Ours are the containers that upload, which get only what they
// need to reach the storage.
func (a Additions) add(pod *corev1.PodSpec, ca CustomCA) {
	for _, name := range a.PullSecrets {
		pod.ImagePullSecrets = withPullSecrets(pod.ImagePullSecrets, []corev1.LocalObjectReference{{Name: name}})
	}
	proxy := a.Proxy.env()
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			c := &list[i]
			if c.Name != executionv1.ContainerLurker {
				addEnv(c, a.Env)
			}
			addEnv(c, proxy)
			if a.TrustCA && ca.set() && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == ca.path() }) {
				c.VolumeMounts = append(slices.Clip(c.VolumeMounts), ca.caMount())
			}
		}
	}
}

// withPullSecrets returns pull secrets with those of more that they lack.
func withPullSecrets(all, more []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(slices.Clip(all), s)
		}
	}
	return all
}

// addEnv adds the variables that a container does not set.
func addEnv(c *corev1.Container, env []corev1.EnvVar) {
	c.Env = slices.Clip(c.Env)
	for _, v := range env {
		if !slices.ContainsFunc(c.Env, func(own corev1.EnvVar) bool { return own.Name == v.Name }) {
			c.Env = append(c.Env, *v.DeepCopy())
		}
	}
}

// fill sets the unset fields of dst to those of src. Both are pointers to structs of the same type.
func fill(dst, src any) {
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for i := range d.NumField() {
		if d.Field(i).IsZero() {
			d.Field(i).Set(s.Field(i))
		}
	}
}

// applyPod sets the fields that a pod's own security context leaves unset.
func (d Defaults) applyPod(pod *corev1.PodSpec) {
	if d.PodSecurityContext == nil {
		return
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	fill(pod.SecurityContext, d.PodSecurityContext.DeepCopy())
}

// applyScanner sets the fields that a ScanType and a Scan leave unset.
func (d Defaults) applyScanner(pod *corev1.PodSpec) {
	c := &pod.Containers[0]
	if d.Resources != nil && len(c.Resources.Requests) == 0 && len(c.Resources.Limits) == 0 {
		c.Resources = *d.Resources.DeepCopy()
	}
	if d.SecurityContext != nil {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		fill(c.SecurityContext, d.SecurityContext.DeepCopy())
	}
	d.applyPod(pod)
}

// security returns the security context of a parser or hook: the fields of the settings, and for the
// rest the values that pass the restricted Pod Security level.
func (d Defaults) security() *corev1.SecurityContext {
	base := restricted(corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault})
	if d.SecurityContext == nil {
		return base
	}
	own := d.SecurityContext.DeepCopy()
	fill(own, base)
	return own
}

// resources returns the resources of a parser or hook that sets none.
func (d Defaults) resources() corev1.ResourceRequirements {
	if d.Resources != nil {
		return *d.Resources.DeepCopy()
	}
	return defaultResources()
}
