// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
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

// serviceArgs are the arguments of templates for Services.
type serviceArgs struct {
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
	return serviceArgs{
		Config: c, ScanConfig: &ScanConfig{}, Cluster: c.Cluster, Target: o.ObjectMeta, Service: o,
		Namespace: &corev1.Namespace{ObjectMeta: sampleObject()}, Host: Host{Type: "https", Port: 443},
	}
}

func sampleObject() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "sample", Namespace: "sample", Labels: map[string]string{}, Annotations: map[string]string{}}
}

// service looks at a Service.
func (s *search) service(o *corev1.Service) {
	if s.excluded(KindService, o) {
		return
	}
	v := Verdict{Kind: KindService, Name: o.Name}
	hosts := s.hosts(o)
	if len(hosts) == 0 {
		v.Outcome, v.Reason, v.Message = Skipped, NoPort, "none of its ports is a target; serviceAutoDiscovery.ports says which are"
		s.say(v)
		return
	}
	digests, reason, why := s.versions(o)
	if reason != "" {
		v.Outcome, v.Reason, v.Message = Waiting, reason, why
		if reason == NoSelector {
			v.Outcome = Skipped
		} else {
			s.held.targets.Insert(targetKey(KindService, o.Name))
		}
		s.say(v)
		return
	}
	rules := s.selected(KindService, s.services, o)
	var lacking []*rule
	for _, r := range rules {
		for _, h := range hosts {
			if r.takes(h) {
				if key := s.place(r, serviceScanName(o.Name, r.Name, h.Port), maxServiceScanName); s.Existing[key] == nil {
					lacking = append(lacking, r)
				}
				s.port(o, r, h.Host, digests)
			}
		}
	}
	s.requireScanTypes(Missing{Object: objectReference("v1", "Service", o)}, lacking)
}

// port wants a scan of a port of a Service.
func (s *search) port(o *corev1.Service, r *rule, h Host, digests map[string]string) {
	v := Verdict{Kind: KindService, Name: o.Name, Detail: "port " + strconv.Itoa(int(h.Port))}
	key := s.place(r, serviceScanName(o.Name, r.Name, h.Port), maxServiceScanName)
	out, err := r.template.Render(serviceArgs{
		Config: s.Config, ScanConfig: r.ScanConfig, Cluster: s.Cluster, Target: o.ObjectMeta, Service: o, Namespace: s.Namespace, Host: h,
	})
	if err != nil {
		s.failed(v, r, key, err)
		return
	}
	s.want(v, r, &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: merged(map[string]string{
				LabelTargetService: o.Name, LabelTargetPort: strconv.Itoa(int(h.Port)), LabelScanType: names.LabelValue(r.ScanType),
				LabelScanConfigName: r.Name, LabelManagedBy: ManagedBy,
			}, digests, out.Labels),
			Annotations:     merged(out.Annotations, contractAnnotations(o.Annotations)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		Spec: out.Spec,
	})
}

// contractAnnotations are those of a target that its scans get.
func contractAnnotations(annotations map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range annotations {
		if strings.Contains(k, "securecodebox.io/") {
			all[k] = v
		}
	}
	return all
}

// servicePort is a port that is a target.
type servicePort struct {
	Host
	name string
}

// hosts are the ports of a Service that are targets, each number once.
func (s *search) hosts(o *corev1.Service) []servicePort {
	c := &s.ServiceAutoDiscovery.Ports
	var all []servicePort
	for _, p := range o.Spec.Ports {
		scheme, ok := c.scheme(p)
		if !ok || slices.ContainsFunc(all, func(h servicePort) bool { return h.Port == p.Port }) {
			continue
		}
		all = append(all, servicePort{Host{Type: scheme, Port: p.Port}, p.Name})
	}
	return all
}

// scheme is what is spoken at a port; false where it is no target.
func (c *PortsConfig) scheme(p corev1.ServicePort) (string, bool) {
	if anyPort(c.Exclude, p.Port, p.Name) {
		return "", false
	}
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	if len(c.Protocols) > 0 && !slices.Contains(c.Protocols, protocol) {
		return "", false
	}
	app := ""
	if c.AppProtocols && p.AppProtocol != nil {
		app = strings.ToLower(*p.AppProtocol)
	}
	switch {
	case slices.Contains(c.HTTPS, p.Port), slices.Contains(c.HTTPSNames, p.Name), app == "https":
		return "https", true
	case slices.Contains(c.HTTP, p.Port), slices.Contains(c.HTTPNames, p.Name), app == "http", app == "kubernetes.io/h2c", c.All:
		return "http", true
	}
	return "", false
}

// takes says whether a scanConfig wants a port.
func (r *rule) takes(h servicePort) bool {
	return len(r.Ports) == 0 || anyPort(r.Ports, h.Port, h.name)
}

func anyPort(all []intstr.IntOrString, port int32, name string) bool {
	return slices.ContainsFunc(all, func(p intstr.IntOrString) bool {
		if p.Type == intstr.Int {
			return p.IntVal == port
		}
		return p.StrVal == name || p.StrVal == strconv.Itoa(int(port))
	})
}

// versions are labels with the digests of the containers behind a Service. A reason says
// why it is not time to scan it.
func (s *search) versions(o *corev1.Service) (map[string]string, Reason, string) {
	if len(o.Spec.Selector) == 0 {
		if s.ServiceAutoDiscovery.WithoutSelector {
			return nil, "", ""
		}
		return nil, NoSelector, "it selects no pods; serviceAutoDiscovery.withoutSelector takes such Services too"
	}
	digests, ready := map[string]string{}, false
	selector := labels.SelectorFromSet(o.Spec.Selector)
	for _, p := range s.Pods {
		if !selector.Matches(labels.Set(p.Labels)) || !isLive(p) {
			continue
		}
		ready = ready || isReady(p)
		for _, c := range p.Status.ContainerStatuses {
			i, ok := parseImageID(c.ImageID)
			if !ok {
				continue
			}
			key, value := DigestPrefix+c.Name, i.digest[:digestDigits]
			if other, seen := digests[key]; seen && other != value {
				return nil, DigestsDiffer, fmt.Sprintf("its pods run different versions of container %s; it is scanned when they all run the same", c.Name)
			}
			digests[key] = value
		}
	}
	if !ready {
		return nil, NoReadyPod, "none of its pods is ready"
	}
	return digests, "", ""
}

// isLive says whether a pod runs, or is about to.
func isLive(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// isReady says whether all containers of a pod are.
func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if !c.Ready {
			return false
		}
	}
	return len(p.Status.ContainerStatuses) > 0
}
