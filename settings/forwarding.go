// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Forwarding is where the results of a namespace's Scans are sent, besides the object storage. The zero value has no sinks.
type Forwarding struct {
	// Sinks are the sinks of the cluster that select the namespace, then the sinks of the namespace.
	Sinks []EffectiveSink
	// AfterForwarding is Keep, KeepLastRun or Remove.
	AfterForwarding settingsv1alpha2.AfterForwarding
	// Hold is how long the deletion of a Scan waits for its delivery.
	Hold time.Duration
	// FailurePolicy is Ignore or Fail.
	FailurePolicy settingsv1alpha2.FailurePolicy
	// FailAfter is how long a Scan waits for its delivery, with FailurePolicy Fail.
	FailAfter time.Duration
}

// EffectiveSink is a sink of a namespace.
type EffectiveSink struct {
	// ID is cluster/NAME or NAMESPACE/NAME.
	ID string
	// UID is the UID of the setting, so that a setting that was deleted and made again has other sinks.
	UID types.UID
	// Namespace is the namespace of the setting; "" for the cluster's.
	Namespace string
	Name      string
	// Sink is the sink as the setting has it.
	Sink settingsv1alpha2.Sink
	// Metadata is sent with each result: the metadata of the sink and of its setting, overridden by the cluster's.
	Metadata map[string]string
	// OutOfBounds says why the cluster does not allow the sink, and what to do; "" if it does. Nothing is sent to such a sink.
	OutOfBounds string
	// Networks are the networks whose addresses may be dialled for a sink of a namespace, even loopback addresses.
	Networks []netip.Prefix
}

// Defaults of what no setting sets.
const (
	defaultHold      = time.Hour
	defaultFailAfter = time.Hour
	defaultMaxSinks  = 4
)

// clusterSinks is the prefix of the IDs of the cluster's sinks.
const clusterSinks = "cluster"

// forwarding returns the settings in force for the results of a namespace. It is a pure function.
func forwarding(in Input) Forwarding {
	cluster := ptr.Deref(in.Cluster, settingsv1alpha2.ClusterScanSettingSpec{}).ResultForwarding
	own := ptr.Deref(in.Setting, settingsv1alpha2.ScanSettingSpec{}).ResultForwarding
	if cluster == nil && own == nil {
		return Forwarding{}
	}
	common := cluster.CommonMetadata()
	var sinks []EffectiveSink
	for _, s := range cluster.All() {
		if selects(s.NamespaceSelector, in.Namespace, in.Labels) {
			sinks = append(sinks, EffectiveSink{
				ID: SinkID("", s.Name), UID: in.ClusterUID, Name: s.Name, Sink: s.Sink, Metadata: metadata(common, s.ExtraMetadata, ofGRPC(&s.Sink)),
			})
		}
	}
	bounds := boundsOf(cluster)
	for i, s := range own.All() {
		sinks = append(sinks, EffectiveSink{
			ID: SinkID(in.Namespace, s.Name), UID: in.SettingUID, Namespace: in.Namespace, Name: s.Name, Sink: s.Sink,
			// The cluster's keys come last: a team cannot pretend to be another cluster.
			Metadata:    metadata(own.CommonMetadata(), s.ExtraMetadata, ofGRPC(&s.Sink), common),
			OutOfBounds: bounds.refuse(i, &s.Sink), Networks: bounds.networks,
		})
	}
	if len(sinks) == 0 {
		return Forwarding{}
	}
	f := delivery(cluster, own)
	f.Sinks = sinks
	return f
}

// ownID returns the ID of a namespace's sink. A namespace called cluster gets a dot, which names of namespaces cannot have.
func ownID(namespace, name string) string {
	if namespace == clusterSinks {
		namespace += "."
	}
	return namespace + "/" + name
}

// SinkID returns the ID of a sink of a namespace or, for "", of the cluster.
func SinkID(namespace, name string) string {
	if namespace == "" {
		return clusterSinks + "/" + name
	}
	return ownID(namespace, name)
}

// SinkNamespace returns the namespace of the sink with the ID; "" for a sink of the cluster.
func SinkNamespace(id string) string {
	namespace, _, _ := strings.Cut(id, "/")
	if namespace == clusterSinks {
		return ""
	}
	return strings.TrimSuffix(namespace, ".")
}

func selects(s *metav1.LabelSelector, namespace string, has map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false // validation has refused it
	}
	all := labels.Set{corev1.LabelMetadataName: namespace}
	maps.Copy(all, has)
	return selector.Matches(all)
}

func ofGRPC(s *settingsv1alpha2.Sink) settingsv1alpha2.Metadata {
	if s.GRPC == nil {
		return nil
	}
	return s.GRPC.ExtraMetadata
}

// metadata merges metadata; later values override earlier ones.
func metadata(all ...settingsv1alpha2.Metadata) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// strictness orders the values of afterForwarding: to keep more is stricter.
var strictness = []settingsv1alpha2.AfterForwarding{
	settingsv1alpha2.AfterForwardingRemove, settingsv1alpha2.AfterForwardingKeepLastRun, settingsv1alpha2.AfterForwardingKeep,
}

// delivery combines the settings of cluster and namespace: a namespace may not loosen the cluster's, unless the cluster allows that.
func delivery(cluster *settingsv1alpha2.ClusterResultForwarding, own *settingsv1alpha2.ResultForwarding) Forwarding {
	c, n := cluster.Rules(), own.Rules()
	f := Forwarding{AfterForwarding: after(c), Hold: hold(c), FailurePolicy: policy(c), FailAfter: failAfter(c)}
	loose := looser(cluster, own)
	if n.InClusterStorage != nil && n.InClusterStorage.AfterForwarding != "" && !loose.storage {
		f.AfterForwarding = after(n)
	}
	if n.HoldSeconds != nil && !loose.hold {
		f.Hold = hold(n)
	}
	if n.FailurePolicy != "" && !loose.policy {
		if f.FailurePolicy != n.FailurePolicy || n.FailAfterSeconds != nil && allowance(cluster).FailurePolicy {
			f.FailAfter = failAfter(n)
		}
		f.FailurePolicy = n.FailurePolicy
	}
	return f
}

// loosened marks the fields of a namespace that are looser than the cluster's and than the cluster allows.
type loosened struct{ storage, hold, policy bool }

func looser(cluster *settingsv1alpha2.ClusterResultForwarding, own *settingsv1alpha2.ResultForwarding) loosened {
	c, n, allow := cluster.Rules(), own.Rules(), allowance(cluster)
	return loosened{
		storage: !allow.InClusterStorage && n.InClusterStorage != nil && n.InClusterStorage.AfterForwarding != "" &&
			slices.Index(strictness, after(n)) < slices.Index(strictness, after(c)),
		hold:   n.HoldSeconds != nil && hold(n) < hold(c),
		policy: !allow.FailurePolicy && n.FailurePolicy == settingsv1alpha2.FailurePolicyIgnore && policy(c) == settingsv1alpha2.FailurePolicyFail,
	}
}

func allowance(cluster *settingsv1alpha2.ClusterResultForwarding) settingsv1alpha2.AllowNamespaces {
	if cluster == nil {
		return settingsv1alpha2.AllowNamespaces{}
	}
	return ptr.Deref(cluster.AllowNamespaces, settingsv1alpha2.AllowNamespaces{})
}

func after(d settingsv1alpha2.Delivery) settingsv1alpha2.AfterForwarding {
	if d.InClusterStorage == nil || d.InClusterStorage.AfterForwarding == "" {
		return settingsv1alpha2.AfterForwardingKeep
	}
	return d.InClusterStorage.AfterForwarding
}

func hold(d settingsv1alpha2.Delivery) time.Duration {
	if d.HoldSeconds == nil {
		return defaultHold
	}
	return time.Duration(*d.HoldSeconds) * time.Second
}

func policy(d settingsv1alpha2.Delivery) settingsv1alpha2.FailurePolicy {
	if d.FailurePolicy == "" {
		return settingsv1alpha2.FailurePolicyIgnore
	}
	return d.FailurePolicy
}

func failAfter(d settingsv1alpha2.Delivery) time.Duration {
	if d.FailAfterSeconds == nil {
		return defaultFailAfter
	}
	return time.Duration(*d.FailAfterSeconds) * time.Second
}

// sinkBounds are what the cluster allows namespaces.
type sinkBounds struct {
	allowed  *settingsv1alpha2.AllowNamespaces
	networks []netip.Prefix
}

func boundsOf(cluster *settingsv1alpha2.ClusterResultForwarding) sinkBounds {
	var b sinkBounds
	if cluster == nil || cluster.AllowNamespaces == nil {
		return b
	}
	b.allowed = cluster.AllowNamespaces
	for _, e := range b.allowed.Endpoints {
		if p, err := netip.ParsePrefix(e); err == nil {
			b.networks = append(b.networks, p.Masked())
		}
	}
	return b
}

const orAsk = ", or ask the cluster admin"

// refuse returns why the cluster does not allow the i-th sink of a namespace; "" if it does.
func (b sinkBounds) refuse(at int, s *settingsv1alpha2.Sink) string {
	if b.allowed == nil {
		return "the cluster does not let namespaces have sinks of their own (spec.resultForwarding.allowNamespaces of the ClusterScanSetting): " +
			"remove the sink" + orAsk
	}
	most := int(ptr.Deref(b.allowed.MaxSinks, defaultMaxSinks))
	switch {
	case at >= most:
		return fmt.Sprintf("the cluster allows a namespace %d sinks (maxSinks): remove those beyond%s", most, orAsk)
	case s.Provider == settingsv1alpha2.ProviderFile:
		return "a file is for sinks of the cluster only: use another provider" + orAsk
	case !slices.Contains(b.allowed.Providers, s.Provider):
		var names []string
		for _, p := range b.allowed.Providers {
			if p != settingsv1alpha2.ProviderFile {
				names = append(names, string(p))
			}
		}
		return fmt.Sprintf("provider %s is not allowed; the cluster allows %s: use one of those%s", s.Provider, list(names), orAsk)
	case s.IsInsecure():
		return "tls.insecure is for sinks of the cluster only: remove it and use https" + orAsk
	}
	endpoints, err := s.Endpoints()
	if err != nil {
		return err.Error()
	}
	for _, e := range endpoints {
		if !slices.ContainsFunc(b.allowed.Endpoints, func(pattern string) bool { return fits(pattern, e) }) {
			return fmt.Sprintf("endpoint %s is not allowed; the cluster allows %s: use one of those%s", e.Address(), list(b.allowed.Endpoints), orAsk)
		}
	}
	return ""
}

// fits reports whether a pattern (host, *.domain, host:port or a network) matches an endpoint.
func fits(pattern string, e settingsv1alpha2.Endpoint) bool {
	address, err := netip.ParseAddr(e.Host)
	isAddress := err == nil
	if p, err := netip.ParsePrefix(pattern); err == nil {
		return isAddress && p.Contains(address.Unmap().WithZone(""))
	}
	host := strings.ToLower(strings.TrimSuffix(e.Host, "."))
	pattern = strings.ToLower(pattern)
	if domain, ok := strings.CutPrefix(pattern, "*"); ok && strings.HasPrefix(domain, ".") {
		return !isAddress && len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	if h, port, err := net.SplitHostPort(pattern); err == nil {
		return h == host && port == strconv.Itoa(e.Port)
	}
	return strings.Trim(pattern, "[]") == host
}

// Remote is what is known of the remote end of a sink.
type Remote struct {
	// Stores means that a gRPC receiver reports that it stores what it acknowledges.
	Stores bool
	// MinInsyncReplicas is min.insync.replicas of a Kafka topic.
	MinInsyncReplicas int
	// FileStorage and DiscardNew describe a stream of NATS JetStream.
	FileStorage, DiscardNew bool
}

// Proves reports whether an acknowledgement of a sink proves that the remote end has stored the data.
func Proves(s *settingsv1alpha2.Sink, far Remote) bool {
	if !s.CanProve() {
		return false
	}
	switch s.Provider {
	case settingsv1alpha2.ProviderGRPC:
		return far.Stores
	case settingsv1alpha2.ProviderKafka:
		const replicas = 2 // one replica must be left when one is lost
		return far.MinInsyncReplicas >= replicas || ptr.Deref(s.ProvesStorage, false)
	case settingsv1alpha2.ProviderNATS:
		return far.FileStorage && far.DiscardNew
	default:
		return true
	}
}

// reviewForwarding validates resultForwarding of a namespace, under the settings in force of the cluster.
func (p *Problems) reviewForwarding(c *settingsv1alpha2.ClusterResultForwarding, own *settingsv1alpha2.ResultForwarding, path *field.Path) {
	if own == nil {
		return
	}
	p.invalid = append(p.invalid, settingsv1alpha2.ValidateForwarding(own, path)...)
	if len(p.invalid) > 0 {
		return
	}
	bounds := boundsOf(c)
	var sinks []*settingsv1alpha2.Sink
	for i, s := range own.All() {
		at := path
		if s.Name != settingsv1alpha2.DefaultSink {
			at = path.Child("sinks").Key(s.Name)
		}
		if text := bounds.refuse(i, &s.Sink); text != "" {
			p.bounds = append(p.bounds, field.Forbidden(at, text))
		}
		sinks = append(sinks, &s.Sink)
	}
	for _, s := range c.All() {
		sinks = append(sinks, &s.Sink)
	}
	loose, by := looser(c, own), "spec.resultForwarding of the ClusterScanSetting"
	if loose.storage {
		p.bounds = append(p.bounds, field.Forbidden(path.Child("inClusterStorage", "afterForwarding"),
			fmt.Sprintf("%s keeps less than %s, which %s says: remove it%s", after(own.Rules()), after(c.Rules()), by, orAsk)))
	}
	if loose.hold {
		p.bounds = append(p.bounds, field.Forbidden(path.Child("holdSeconds"),
			fmt.Sprintf("is less than the %d that %s says: raise or remove it%s", int(hold(c.Rules()).Seconds()), by, orAsk)))
	}
	if loose.policy {
		p.bounds = append(p.bounds, field.Forbidden(path.Child("failurePolicy"), "Ignore is less strict than Fail, which "+by+" says: remove it"+orAsk))
	}
	p.invalid = append(p.invalid, settingsv1alpha2.NeedsProof(after(own.Rules()), sinks, path)...)
}

// reviewClusterForwarding validates resultForwarding of the cluster.
func (p *Problems) reviewClusterForwarding(f *settingsv1alpha2.ClusterResultForwarding, path *field.Path) {
	if f == nil {
		return
	}
	p.invalid = append(p.invalid, settingsv1alpha2.ValidateForwarding(f, path)...)
	var sinks []*settingsv1alpha2.Sink
	for _, s := range f.All() {
		sinks = append(sinks, &s.Sink)
	}
	p.invalid = append(p.invalid, settingsv1alpha2.NeedsProof(after(f.Rules()), sinks, path)...)
	if f.AllowNamespaces == nil {
		return
	}
	for i, e := range f.AllowNamespaces.Endpoints {
		_, err := netip.ParsePrefix(e)
		if err != nil && strings.ContainsAny(strings.TrimPrefix(e, "*."), "/* @") {
			p.invalid = append(p.invalid, field.Invalid(path.Child("allowNamespaces", "endpoints").Index(i), e,
				"is not a host, *.domain, host:port or network: write it such as *.example.com or 10.0.0.0/8"))
		}
	}
}
