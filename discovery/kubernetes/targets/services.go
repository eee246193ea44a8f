// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/names"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// service finds the targets of a Service.
func (s *search) service(o *corev1.Service) {
	if s.excluded(KindService, o) {
		return
	}
	v := Result{Kind: KindService, Name: o.Name}
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
	rules := s.selected(KindService, s.ServiceRules, o)
	var lacking []*config.Rule
	for _, r := range rules {
		for _, h := range hosts {
			if r.Takes(h.Port, h.name) {
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
func (s *search) port(o *corev1.Service, r *config.Rule, h config.Host, digests map[string]string) {
	v := Result{Kind: KindService, Name: o.Name, Detail: "port " + strconv.Itoa(int(h.Port))}
	key := s.place(r, serviceScanName(o.Name, r.Name, h.Port), maxServiceScanName)
	out, err := r.Template.Render(config.ServiceArgs{
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

// contractAnnotations are the annotations of a target that its scans get.
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
	config.Host
	name string
}

// hosts are the ports of a Service that are targets, each number once.
func (s *search) hosts(o *corev1.Service) []servicePort {
	c := &s.ServiceAutoDiscovery.Ports
	var all []servicePort
	for _, p := range o.Spec.Ports {
		scheme, ok := c.Scheme(p)
		if !ok || slices.ContainsFunc(all, func(h servicePort) bool { return h.Port == p.Port }) {
			continue
		}
		all = append(all, servicePort{config.Host{Type: scheme, Port: p.Port}, p.Name})
	}
	return all
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
