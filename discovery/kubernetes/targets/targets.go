// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// Labels and other names of what is written, as in secureCodeBox.
const (
	// LabelManagedBy and ManagedBy mark ScheduledScans of every auto-discovery.
	LabelManagedBy = executionv1.LabelManagedBy
	ManagedBy      = "securecodebox-autodiscovery"

	// LabelTargetService names the Service.
	LabelTargetService = "auto-discovery.securecodebox.io/target-service"
	// LabelTargetPort is the port of the Service.
	LabelTargetPort = "auto-discovery.securecodebox.io/target-port"
	// LabelScanType is the scan type.
	LabelScanType = "auto-discovery.securecodebox.io/scan-type"
	// LabelScanConfigName is the name of the scanConfig.
	LabelScanConfigName = "auto-discovery.securecodebox.io/scan-config-name"
	// DigestPrefix begins labels whose values are digests of the containers of a Service.
	DigestPrefix = "digest.auto-discovery.securecodebox.io/"
)

// Additions to secureCodeBox's labels.
const (
	// LabelTargetIngress names the Ingress.
	LabelTargetIngress = "auto-discovery.scanyard.io/target-ingress"
	// LabelTargetHTTPRoute names the HTTPRoute.
	LabelTargetHTTPRoute = "auto-discovery.scanyard.io/target-httproute"
	// LabelSourceNamespace is the namespace of the target, on ScheduledScans in another one.
	LabelSourceNamespace = "auto-discovery.scanyard.io/source-namespace"

	ourPrefix      = "auto-discovery.securecodebox.io/"
	additionPrefix = "auto-discovery.scanyard.io/"
	// awsPrefix begins annotations of the discovery for AWS, which has the same label and
	// names its ScheduledScans alike.
	awsPrefix = "aws.auto-discovery.scanyard.io/"
)

// digestDigits are how many digits of a digest fit the value of a label.
const digestDigits = 63

// search is one pass: what it has found so far.
type search struct {
	*Observation
	*config.Compiled

	wanted  map[types.NamespacedName]*executionv1.ScheduledScan
	held    holds
	results []Result
	missing []Missing
}

// holds are ScheduledScans that stay as they are, since nothing can be said about their
// target at the moment: by target, by target and scanConfig, by name, by application.
type holds struct {
	targets sets.Set[string]
	names   sets.Set[types.NamespacedName]
	apps    sets.Set[string]
}

func targetKey(kind Kind, name string) string { return string(kind) + "/" + name }

func configKey(kind Kind, name, config string) string { return targetKey(kind, name) + "/" + config }

// discover says what should be scanned in a namespace.
func discover(v *Observation, c *config.Compiled) *search {
	s := &search{
		Observation: v, Compiled: c, wanted: map[types.NamespacedName]*executionv1.ScheduledScan{},
		held: holds{sets.New[string](), sets.New[types.NamespacedName](), sets.New[string]()},
	}
	if c.ServiceAutoDiscovery.Enabled {
		for _, o := range v.Services {
			s.service(o)
		}
	}
	if c.ContainerAutoDiscovery.Enabled {
		s.images()
	}
	if c.IngressAutoDiscovery.Enabled {
		for _, o := range v.Ingresses {
			s.ingress(o)
		}
	}
	if c.GatewayAutoDiscovery.Enabled {
		for _, o := range v.HTTPRoutes {
			s.httpRoute(o)
		}
	}
	return s
}

func (s *search) say(v Result) { s.results = append(s.results, v) }

// excluded says whether an object is left out before its kind is looked at.
func (s *search) excluded(kind Kind, o metav1.Object) bool {
	reason, why := s.exclusionOf(o)
	if why == "" {
		return false
	}
	s.say(Result{Kind: kind, Name: o.GetName(), Outcome: Skipped, Reason: reason, Message: why})
	return true
}

func (s *search) exclusionOf(o metav1.Object) (Reason, string) {
	if !s.Namespaces.Matches(labels.Set(s.Namespace.Labels)) {
		return NamespaceNotSelected, "resourceInclusion.namespaceSelector does not select the namespace"
	}
	return exclusion(s.ResourceInclusion.Mode, s.Namespace.Annotations, o.GetAnnotations())
}

// selected returns the scanConfigs that want a target. If there is none, the target's result says so.
func (s *search) selected(kind Kind, rules []*config.Rule, o metav1.Object) []*config.Rule {
	var all []*config.Rule
	for _, r := range rules {
		if r.Selects(s.Namespace, o) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		s.unselected(Result{Kind: kind, Name: o.GetName()}, rules)
	}
	return all
}

// unselected says that no scanConfig wants a target.
func (s *search) unselected(v Result, rules []*config.Rule) {
	v.Outcome, v.Reason, v.Message = Skipped, NotSelected, "no scanConfig selects it by namespaceSelector and targetSelector"
	if len(rules) == 0 {
		v.Reason, v.Message = NoScanConfig, "there are no scanConfigs"
	}
	s.say(v)
}

// place is where the ScheduledScan of a target is.
func (s *search) place(r *config.Rule, name string, limit int) types.NamespacedName {
	if r.TargetNamespace == "" || r.TargetNamespace == s.Namespace.Name {
		return types.NamespacedName{Namespace: s.Namespace.Name, Name: name}
	}
	// One of ours that is there under the name of earlier versions stays: another would be a second one, with a run of its own.
	former := types.NamespacedName{Namespace: r.TargetNamespace, Name: formerlyInNamespace(s.Namespace.Name, name, limit)}
	if have := s.Existing[former]; have != nil && have.Ours && have.DeletionTimestamp == nil {
		return former
	}
	return types.NamespacedName{Namespace: r.TargetNamespace, Name: inNamespace(s.Namespace.Name, name, limit)}
}

// hasScanType says whether the scanner of a scanConfig is installed where it is needed.
func (s *search) hasScanType(r *config.Rule) bool {
	if r.IsClusterWide() {
		return s.ClusterScanTypes.Has(r.ScanType)
	}
	namespace := s.Namespace.Name
	if r.TargetNamespace != "" {
		namespace = r.TargetNamespace
	}
	return s.ScanTypes[namespace].Has(r.ScanType)
}

// missingAdvice says what to do about a ScanType that does not exist.
func (s *search) missingAdvice(r *config.Rule) string {
	if r.IsClusterWide() {
		return "there is no ClusterScanType " + r.ScanType + "; install the scanner's chart with clusterWide=true"
	}
	namespace := s.Namespace.Name
	if r.TargetNamespace != "" {
		namespace = r.TargetNamespace
	}
	advice := "there is no ScanType " + r.ScanType + " in namespace " + namespace + "; install the scanner's chart there"
	if s.ClusterScanTypes.Has(r.ScanType) {
		advice += ", or use the ClusterScanType of that name with resourceMode: clusterWide in the scanConfig"
	}
	return advice
}

// want adds a ScheduledScan that was built for a target.
func (s *search) want(v Result, r *config.Rule, o *executionv1.ScheduledScan) {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	v.ScanConfig, v.ScheduledScan = r.Name, s.display(key)
	have := s.Existing[key]
	if other, taken := s.Taken[key]; taken {
		v.Outcome, v.Reason, v.Message = Skipped, NameTaken, "a ScheduledScan of that name is for namespace "+other
		s.say(v)
		return
	}
	if have == nil && !s.hasScanType(r) {
		v.Outcome, v.Reason, v.Message = Waiting, ScanTypeMissing, s.missingAdvice(r)
		s.say(v)
		return
	}
	if have != nil && !have.adoptable() {
		s.held.names.Insert(key)
		v.Outcome, v.Reason, v.Message = Skipped, NameTaken, "a ScheduledScan of that name belongs to another client; rename one of the two"
		s.say(v)
		return
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan"}
	if o.Namespace != s.Namespace.Name {
		o.Labels[LabelSourceNamespace] = s.Namespace.Name
		o.OwnerReferences = nil // an owner in another namespace would have it collected at once
	}
	s.wanted[key] = o
	v.Outcome = Scanned
	s.say(v)
}

func (s *search) display(key types.NamespacedName) string {
	if key.Namespace == s.Namespace.Name {
		return key.Name
	}
	return key.String()
}

// failed holds what there is where a template fails.
func (s *search) failed(v Result, r *config.Rule, key types.NamespacedName, err error) {
	s.held.names.Insert(key)
	v.ScanConfig, v.ScheduledScan = r.Name, s.display(key)
	v.Outcome, v.Reason, v.Message = Waiting, TemplateFailed, err.Error()
	s.say(v)
}

// adoptable reports whether an existing ScheduledScan belongs to a discovery, and not to a user who
// made it by hand under the same name.
func (e *Existing) adoptable() bool {
	if e.Ours {
		return true
	}
	for k := range e.Annotations {
		if strings.HasPrefix(k, awsPrefix) {
			return false
		}
	}
	if e.Labels[LabelManagedBy] == ManagedBy {
		return true
	}
	_, ok := e.Labels[LabelTargetService]
	return ok
}

// requireScanTypes notes the ScanTypes that a target lacks, each once.
func (s *search) requireScanTypes(m Missing, rules []*config.Rule) {
	seen := sets.New[string]()
	for _, r := range rules {
		if s.hasScanType(r) {
			continue
		}
		m.Name, m.Mode = r.ScanType, r.ResourceMode
		if key := string(m.Mode) + m.Name; !seen.Has(key) {
			seen.Insert(key)
			s.missing = append(s.missing, m)
		}
	}
}

// merged are maps over each other, the last one wins.
func merged(all ...map[string]string) map[string]string {
	m := map[string]string{}
	for _, one := range all {
		maps.Copy(m, one)
	}
	return m
}

// isOurKey says whether a label is one that only a discovery sets.
func isOurKey(key string) bool {
	return slices.ContainsFunc([]string{DigestPrefix, ourPrefix, additionPrefix}, func(p string) bool { return strings.HasPrefix(key, p) })
}
