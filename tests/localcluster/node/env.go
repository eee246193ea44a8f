// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// sources reads the ConfigMaps and Secrets that containers refer to. A missing
// object is a nil map, so that the caller decides whether that is allowed.
type sources interface {
	configMap(name string) (map[string][]byte, error)
	secret(name string) (map[string][]byte, error)
}

// envContext is what a container's variables are made from, besides its spec.
type envContext struct {
	pod         *corev1.Pod
	podIP       string
	allocatable corev1.ResourceList
	// cluster are variables that every container gets.
	cluster map[string]string
	sources sources
}

// environment resolves a container's variables as a kubelet does: the
// cluster's, then envFrom, then env in order, each seeing what came before.
// The image's variables are not among them: $(NAME) does not see those.
func environment(c *corev1.Container, e envContext) (map[string]string, error) {
	env := map[string]string{}
	maps.Copy(env, e.cluster)
	for i := range c.EnvFrom {
		if err := addEnvFrom(env, &c.EnvFrom[i], e); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		value, found := expansion.Expand(v.Value, expansion.MappingFuncFor(env)), true
		if v.ValueFrom != nil {
			var err error
			if value, found, err = valueFrom(c, v.ValueFrom, e); err != nil {
				return nil, err
			}
		}
		if found {
			env[v.Name] = value
		}
	}
	return env, nil
}

func addEnvFrom(env map[string]string, f *corev1.EnvFromSource, e envContext) error {
	var data map[string][]byte
	var err error
	switch {
	case f.ConfigMapRef != nil:
		data, err = e.sources.configMap(f.ConfigMapRef.Name)
		if err == nil && data == nil && !isTrue(f.ConfigMapRef.Optional) {
			err = fmt.Errorf("configmap %q not found", f.ConfigMapRef.Name)
		}
	case f.SecretRef != nil:
		data, err = e.sources.secret(f.SecretRef.Name)
		if err == nil && data == nil && !isTrue(f.SecretRef.Optional) {
			err = fmt.Errorf("secret %q not found", f.SecretRef.Name)
		}
	}
	for k, v := range data {
		env[f.Prefix+k] = string(v)
	}
	return err
}

// valueFrom resolves one reference; found is false for an optional one that
// leads nowhere.
func valueFrom(c *corev1.Container, f *corev1.EnvVarSource, e envContext) (value string, found bool, err error) {
	switch {
	case f.FieldRef != nil:
		value, err = podField(e.pod, e.podIP, f.FieldRef.FieldPath)
		return value, true, err
	case f.ResourceFieldRef != nil:
		value, err = containerResource(e.pod, c.Name, f.ResourceFieldRef, e.allocatable)
		return value, true, err
	case f.ConfigMapKeyRef != nil:
		r := f.ConfigMapKeyRef
		data, err := e.sources.configMap(r.Name)
		return keyOf(data, err, r.Key, isTrue(r.Optional), "configmap", "ConfigMap", e.pod.Namespace, r.Name)
	case f.SecretKeyRef != nil:
		r := f.SecretKeyRef
		data, err := e.sources.secret(r.Name)
		return keyOf(data, err, r.Key, isTrue(r.Optional), "secret", "Secret", e.pod.Namespace, r.Name)
	}
	return "", false, fmt.Errorf("unsupported valueFrom of container %s", c.Name)
}

func keyOf(data map[string][]byte, err error, key string, optional bool, lower, kind, namespace, name string) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	v, found := data[key]
	switch {
	case found || optional:
		return string(v), found, nil
	case data == nil:
		return "", false, fmt.Errorf("%s %q not found", lower, name)
	}
	return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, namespace, name)
}

// podField reads a downward API field. Addresses are known here before they
// are on the object.
func podField(p *corev1.Pod, podIP, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return podIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(p, path)
}

// containerResource reads a downward API resource; without a limit, the node's is the limit.
func containerResource(p *corev1.Pod, container string, f *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if f.ContainerName != "" {
		container = f.ContainerName
	}
	return resource.ExtractResourceValueByContainerNameAndNodeAllocatable(f, p, container, allocatable)
}

// commandLine is what a container executes: the pod's words over the image's.
func commandLine(c *corev1.Container, entrypoint, cmd []string, env map[string]string) []string {
	mapping := expansion.MappingFuncFor(env)
	expand := func(in []string) []string {
		out := make([]string, len(in))
		for i, s := range in {
			out[i] = expansion.Expand(s, mapping)
		}
		return out
	}
	switch {
	case len(c.Command) > 0:
		return append(expand(c.Command), expand(c.Args)...)
	case len(c.Args) > 0:
		return append(slices.Clone(entrypoint), expand(c.Args)...)
	}
	return append(slices.Clone(entrypoint), cmd...)
}

func isTrue(b *bool) bool { return b != nil && *b }

// apiSources reads from the API server.
type apiSources struct {
	ctx       context.Context
	client    kubernetes.Interface
	namespace string
}

func (s apiSources) configMap(name string) (map[string][]byte, error) {
	m, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := maps.Clone(m.BinaryData)
	if out == nil {
		out = map[string][]byte{}
	}
	for k, v := range m.Data {
		out[k] = []byte(v)
	}
	return out, nil
}

func (s apiSources) secret(name string) (map[string][]byte, error) {
	m, err := s.client.CoreV1().Secrets(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.Data == nil {
		return map[string][]byte{}, nil
	}
	return m.Data, nil
}
