// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Ports that a URL leaves out.
const (
	HTTPPort  = 80
	HTTPSPort = 443
)

// Host is a port of a Service, or a host of a route, for templates.
type Host struct {
	// Type is http or https.
	Type string
	// Port is its number.
	Port int32
	// Name is the host of a route; empty for Services.
	Name string
}

// ServiceArgs are the arguments of templates for Services.
type ServiceArgs struct {
	Config     *Config
	ScanConfig *ScanConfig
	Cluster    ClusterConfig
	Target     metav1.ObjectMeta
	Service    *corev1.Service
	Namespace  *corev1.Namespace
	Host       Host
}

func sampleServiceArgs(c *Config) any {
	o := &corev1.Service{ObjectMeta: sampleObject(), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}
	return ServiceArgs{
		Config: c, ScanConfig: &ScanConfig{}, Cluster: c.Cluster, Target: o.ObjectMeta, Service: o,
		Namespace: &corev1.Namespace{ObjectMeta: sampleObject()}, Host: Host{Type: "https", Port: 443},
	}
}

func sampleObject() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "sample", Namespace: "sample", Labels: map[string]string{}, Annotations: map[string]string{}}
}

// ImageArgs describe an image, for templates.
type ImageArgs struct {
	// Repository is where it is, such as docker.io/library/nginx.
	Repository string
	// Name is the last part of it.
	Name string
	// Tag is the one in the pod; empty where it has none.
	Tag string
	// Digest is sha256: and 64 digits; empty where the image is scanned by its tag.
	Digest string
}

// ContainerArgs are the arguments of templates for images.
type ContainerArgs struct {
	Config     *Config
	ScanConfig *ScanConfig
	Cluster    ClusterConfig
	Target     metav1.ObjectMeta
	Namespace  *corev1.Namespace
	ImageID    string
	// Image and Container are additions.
	Image     ImageArgs
	Container string
}

func sampleContainerArgs(c *Config) any {
	return ContainerArgs{
		Config: c, ScanConfig: &ScanConfig{}, Cluster: c.Cluster, Target: sampleObject(), Namespace: &corev1.Namespace{ObjectMeta: sampleObject()},
		ImageID: "docker.io/library/sample@sha256:" + strings.Repeat("0", 64),
		Image:   ImageArgs{Repository: "docker.io/library/sample", Name: "sample", Tag: "1", Digest: "sha256:" + strings.Repeat("0", 64)}, Container: "sample",
	}
}

// RouteArgs are what templates of Ingresses and HTTPRoutes have in common.
type RouteArgs struct {
	Config     *Config
	ScanConfig *ScanConfig
	Cluster    ClusterConfig
	Target     metav1.ObjectMeta
	Namespace  *corev1.Namespace
	Host       Host
	// URL is the URL of the host, without a path.
	URL string
}

// IngressArgs are the arguments of templates for Ingresses.
type IngressArgs struct {
	RouteArgs
	Ingress *networkingv1.Ingress
}

// GatewayArgs are the arguments of templates for HTTPRoutes.
type GatewayArgs struct {
	RouteArgs
	Route *gatewayv1.HTTPRoute
}

func sampleRouteArgs(c *Config) RouteArgs {
	return RouteArgs{
		Config: c, ScanConfig: &ScanConfig{}, Cluster: c.Cluster, Target: sampleObject(), Namespace: &corev1.Namespace{ObjectMeta: sampleObject()},
		Host: Host{Type: "https", Port: 443, Name: "sample.example.com"}, URL: "https://sample.example.com",
	}
}

func sampleIngressArgs(c *Config) any {
	return IngressArgs{sampleRouteArgs(c), &networkingv1.Ingress{ObjectMeta: sampleObject()}}
}

func sampleGatewayArgs(c *Config) any {
	return GatewayArgs{sampleRouteArgs(c), &gatewayv1.HTTPRoute{ObjectMeta: sampleObject()}}
}

// URL is the URL of a host.
func (h Host) URL() string {
	if h.Type == "http" && h.Port == HTTPPort || h.Type == "https" && h.Port == HTTPSPort {
		return h.Type + "://" + h.Name
	}
	return fmt.Sprintf("%s://%s:%d", h.Type, h.Name, h.Port)
}
