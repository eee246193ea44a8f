// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/names"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// ingress finds the targets of an Ingress.
func (s *search) ingress(o *networkingv1.Ingress) {
	s.route(&route{
		kind: KindIngress, apiVersion: "networking.k8s.io/v1", label: LabelTargetIngress, object: o, rules: s.IngressRules, hosts: ingressHosts(o),
		args: func(a config.RouteArgs) any { return config.IngressArgs{RouteArgs: a, Ingress: o} },
	})
}

// ingressHosts are the hosts of an Ingress; those of spec.tls speak TLS.
func ingressHosts(o *networkingv1.Ingress) []config.Host {
	var all []config.Host
	for _, r := range o.Spec.Rules {
		if r.Host == "" {
			continue
		}
		h := config.Host{Type: "http", Port: config.HTTPPort, Name: r.Host}
		if slices.ContainsFunc(o.Spec.TLS, func(t networkingv1.IngressTLS) bool { return coversAny(t.Hosts, r.Host) }) {
			h.Type, h.Port = "https", config.HTTPSPort
		}
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

func coversAny(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, host) })
}

// covers says whether a host name, or a wildcard in place of its first label, means a host.
func covers(pattern, host string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		_, domain, found := strings.Cut(host, ".")
		return host == pattern || found && strings.EqualFold(domain, rest)
	}
	return strings.EqualFold(pattern, host)
}

// httpRoute finds the targets of an HTTPRoute.
func (s *search) httpRoute(o *gatewayv1.HTTPRoute) {
	s.route(&route{
		kind: KindHTTPRoute, apiVersion: gatewayv1.GroupVersion.String(), label: LabelTargetHTTPRoute, object: o, rules: s.RouteRules, hosts: s.gatewayHosts(o),
		args: func(a config.RouteArgs) any { return config.GatewayArgs{RouteArgs: a, Route: o} },
	})
}

// gatewayHosts are the hosts of an HTTPRoute at the listeners of its Gateways.
func (s *search) gatewayHosts(o *gatewayv1.HTTPRoute) []config.Host {
	var all []config.Host
	for i := range o.Spec.ParentRefs {
		for _, l := range s.listeners(o.Namespace, &o.Spec.ParentRefs[i]) {
			for _, h := range listenerHosts(&l, o.Spec.Hostnames) {
				if !slices.Contains(all, h) {
					all = append(all, h)
				}
			}
		}
	}
	return all
}

// listeners are those that a route names; none where it names something else, or what is
// not there.
func (s *search) listeners(namespace string, ref *gatewayv1.ParentReference) []gatewayv1.Listener {
	if ref.Kind != nil && *ref.Kind != "Gateway" {
		return nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}
	if ref.Namespace != nil {
		key.Namespace = string(*ref.Namespace)
	}
	gateway := s.Gateways[key]
	if gateway == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(gateway.Spec.Listeners), func(l gatewayv1.Listener) bool {
		return ref.SectionName != nil && *ref.SectionName != l.Name || ref.Port != nil && *ref.Port != l.Port
	})
}

// listenerHosts are the hosts of a route that a listener serves.
func listenerHosts(l *gatewayv1.Listener, hostnames []gatewayv1.Hostname) []config.Host {
	h := config.Host{Port: l.Port}
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType:
		h.Type = "http"
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		h.Type = "https"
	default:
		return nil
	}
	listener := ""
	if l.Hostname != nil {
		listener = string(*l.Hostname)
	}
	if len(hostnames) == 0 && listener != "" {
		h.Name = listener
		return []config.Host{h}
	}
	var all []config.Host
	for _, name := range hostnames {
		switch {
		case listener == "" || covers(listener, string(name)) || within(listener, string(name)):
			h.Name = string(name)
		case covers(string(name), listener) || within(string(name), listener):
			h.Name = listener // the narrower of the two counts
		default:
			continue
		}
		all = append(all, h)
	}
	return all
}

// within says whether a wildcard means a host, or a wildcard, at any depth: so it is in
// the Gateway API.
func within(pattern, host string) bool {
	rest, ok := strings.CutPrefix(pattern, "*")
	return ok && len(host) > len(rest) && strings.HasSuffix(strings.ToLower(host), strings.ToLower(rest))
}

// route is an Ingress or an HTTPRoute.
type route struct {
	kind       Kind
	apiVersion string
	label      string
	object     metav1.Object
	rules      []*config.Rule
	hosts      []config.Host
	args       func(config.RouteArgs) any
}

// route finds the targets of a route: each of its hosts is one.
func (s *search) route(t *route) {
	if s.excluded(t.kind, t.object) {
		return
	}
	name := t.object.GetName()
	var hosts []config.Host
	for _, h := range t.hosts {
		if strings.HasPrefix(h.Name, "*") {
			s.say(Result{
				Kind: t.kind, Name: name, Detail: h.Name, Outcome: Skipped, Reason: NoHost, Message: "a wildcard is not a host that can be scanned",
			})
			continue
		}
		hosts = append(hosts, h)
	}
	if len(t.hosts) == 0 {
		s.say(Result{Kind: t.kind, Name: name, Outcome: Skipped, Reason: NoHost, Message: "it names no host, or none of its Gateways exists"})
	}
	if len(hosts) == 0 {
		return
	}
	rules := s.selected(t.kind, t.rules, t.object)
	var lacking []*config.Rule
	for _, r := range rules {
		for _, h := range hosts {
			key := s.place(r, routeScanName(t.kind, name, r.Name, h.Name, h.Port), maxServiceScanName)
			if s.Existing[key] == nil {
				lacking = append(lacking, r)
			}
			s.routeHost(t, r, h, key)
		}
	}
	s.requireScanTypes(Missing{Object: objectReference(t.apiVersion, string(t.kind), t.object)}, lacking)
}

// routeHost wants a scan of a host.
func (s *search) routeHost(t *route, r *config.Rule, h config.Host, key types.NamespacedName) {
	o := t.object
	v := Result{Kind: t.kind, Name: o.GetName(), Detail: h.URL()}
	out, err := r.Template.Render(t.args(config.RouteArgs{
		Config: s.Config, ScanConfig: r.ScanConfig, Cluster: s.Cluster, Target: objectMeta(o), Namespace: s.Namespace, Host: h, URL: h.URL(),
	}))
	if err != nil {
		s.failed(v, r, key, err)
		return
	}
	s.want(v, r, &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: merged(map[string]string{
				t.label: names.LabelValue(o.GetName()), LabelScanType: names.LabelValue(r.ScanType),
				LabelScanConfigName: r.Name, LabelManagedBy: ManagedBy,
			}, out.Labels),
			Annotations: merged(out.Annotations, contractAnnotations(o.GetAnnotations())),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: t.apiVersion, Kind: string(t.kind), Name: o.GetName(), UID: o.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: out.Spec,
	})
}

func objectMeta(o metav1.Object) metav1.ObjectMeta {
	switch o := o.(type) {
	case *networkingv1.Ingress:
		return o.ObjectMeta
	case *gatewayv1.HTTPRoute:
		return o.ObjectMeta
	default:
		return metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels(), Annotations: o.GetAnnotations()}
	}
}
