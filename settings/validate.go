// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// ValidateScanSetting returns all mistakes in the settings of a namespace, each with the field and the
// remedy. Cluster is nil if there is no ClusterScanSetting.
func ValidateScanSetting(cluster *settingsv1alpha2.ClusterScanSetting, s *settingsv1alpha2.ScanSetting) field.ErrorList {
	return Review(ClusterInForce(cluster), s).All()
}

// ValidateClusterScanSetting returns all mistakes in the settings of the cluster, each with the field
// and the remedy.
func ValidateClusterScanSetting(s *settingsv1alpha2.ClusterScanSetting) field.ErrorList {
	return ReviewCluster(s).All()
}

// Problems are the mistakes in a setting, by reason.
type Problems struct {
	invalid, bounds, matches field.ErrorList
}

// All returns every mistake, each with the field and the remedy.
func (p *Problems) All() field.ErrorList { return slices.Concat(p.invalid, p.bounds, p.matches) }

// Reason is the reason of the condition: invalid values come before values out of bounds.
func (p *Problems) Reason() string {
	switch {
	case len(p.invalid) > 0:
		return settingsv1alpha2.ReasonInvalid
	case len(p.bounds) > 0:
		return settingsv1alpha2.ReasonOutOfBounds
	case len(p.matches) > 0:
		return settingsv1alpha2.ReasonPatchMatchesNothing
	}
	return settingsv1alpha2.ReasonAccepted
}

// Review validates the settings of a namespace, under the settings in force of the cluster.
func Review(cluster *settingsv1alpha2.ClusterScanSettingSpec, s *settingsv1alpha2.ScanSetting) *Problems {
	c := ptr.Deref(cluster, settingsv1alpha2.ClusterScanSettingSpec{})
	root := field.NewPath("spec")
	p := &Problems{invalid: checkName(s.Name)}
	if l := s.Spec.Limits; l != nil {
		path := root.Child("limits")
		p.invalid = append(p.invalid, checkTargets(l.Targets, path)...)
		p.bounds = append(p.bounds, limitBounds(ptr.Deref(c.Limits, settingsv1alpha2.ClusterLimits{}), l, path)...)
	}
	p.parts(root, s.Spec.TTL, s.Spec.Phases, s.Spec.Jobs, s.Spec.Allowed)
	p.bounds = append(p.bounds, priorityBounds(c.Queue, s.Spec.Queue, root.Child("queue"))...)
	p.bounds = append(p.bounds, ttlBounds(c.TTL, s.Spec.TTL, root.Child("ttl"))...)
	p.bounds = append(p.bounds, deadlineBounds(c.Deadlines, s.Spec.Deadlines, root.Child("deadlines"))...)
	p.bounds = append(p.bounds, privilegeBounds(s.Spec.Phases, root.Child("phases"))...)
	p.bounds = append(p.bounds, allowedBounds(c.Allowed, s.Spec.Allowed, root.Child("allowed"))...)
	if own := s.Spec.Storage; own != nil {
		path := root.Child("storage")
		p.invalid = append(p.invalid, checkStorage(own, path)...)
		p.bounds = append(p.bounds, storageProblems(ptr.Deref(c.Storage, settingsv1alpha2.ClusterStorage{}), *own, path)...)
	}
	p.bounds = append(p.bounds, exceptionBounds(c.Exceptions, s.Spec.Exceptions, root.Child("exceptions"))...)
	p.invalid = append(p.invalid, checkRegistry(s.Spec.Registry, root.Child("registry"))...)
	p.bounds = append(p.bounds, registryBounds(c.Registry, s.Spec.Registry, root.Child("registry"))...)
	p.invalid = append(p.invalid, checkTargetScope(s.Spec.TargetScope, root.Child("targetScope"))...)
	p.reviewForwarding(c.ResultForwarding, s.Spec.ResultForwarding, root.Child("resultForwarding"))
	p.patches(s.Spec.JobPatches, root.Child("jobPatches"), rules{tenant: true, allowed: allowed(c.Allowed, s.Spec.Allowed)})
	return p
}

// ReviewCluster validates the settings of the cluster.
func ReviewCluster(s *settingsv1alpha2.ClusterScanSetting) *Problems {
	root := field.NewPath("spec")
	p := &Problems{invalid: checkName(s.Name)}
	if l := s.Spec.Limits; l != nil {
		path := root.Child("limits")
		p.invalid = append(p.invalid, checkTargets(l.Targets, path)...)
		if l.MaxRunning != nil && l.MaxRunningPerNamespace != nil && *l.MaxRunningPerNamespace > *l.MaxRunning {
			p.invalid = append(p.invalid, field.Invalid(path.Child("maxRunningPerNamespace"), *l.MaxRunningPerNamespace,
				fmt.Sprintf("is more than maxRunning, which is %d for the whole cluster: lower it", *l.MaxRunning)))
		}
	}
	p.invalid = append(p.invalid, checkWeights(s.Spec.Weights, root.Child("weights"))...)
	p.parts(root, s.Spec.TTL, s.Spec.Phases, s.Spec.Jobs, s.Spec.Allowed)
	if own := s.Spec.Storage; own != nil {
		for i, b := range own.Buckets {
			p.invalid = append(p.invalid, checkBucket(b, root.Child("storage", "buckets").Index(i))...)
		}
	}
	p.invalid = append(p.invalid, checkRegistry(s.Spec.Registry, root.Child("registry"))...)
	p.invalid = append(p.invalid, checkTargetScope(s.Spec.TargetScope, root.Child("targetScope"))...)
	p.reviewClusterForwarding(s.Spec.ResultForwarding, root.Child("resultForwarding"))
	p.patches(s.Spec.JobPatches, root.Child("jobPatches"), rules{})
	return p
}

// parts validates the fields that both kinds have.
func (p *Problems) parts(
	root *field.Path, ttl *settingsv1alpha2.TTL, phases *settingsv1alpha2.Phases, jobs *settingsv1alpha2.Jobs,
	allowed *settingsv1alpha2.Allowed,
) {
	if ttl != nil && ttl.DefaultSeconds != nil && ttl.MaxSeconds != nil && *ttl.DefaultSeconds > *ttl.MaxSeconds {
		p.invalid = append(p.invalid, field.Invalid(root.Child("ttl", "defaultSeconds"), *ttl.DefaultSeconds,
			fmt.Sprintf("is more than maxSeconds, which is %d: lower it", *ttl.MaxSeconds)))
	}
	if phases != nil {
		path := root.Child("phases")
		p.invalid = append(p.invalid, checkPhase(phases.Scanner, path.Child("scanner"))...)
		p.invalid = append(p.invalid, checkPhase(phases.Parser, path.Child("parser"))...)
		p.invalid = append(p.invalid, checkPhase(phases.Hook, path.Child("hook"))...)
	}
	if jobs != nil {
		p.invalid = append(p.invalid, checkJobs(jobs, root.Child("jobs"))...)
	}
	if allowed != nil {
		p.invalid = append(p.invalid, checkAllowed(allowed, root.Child("allowed"))...)
	}
}

func checkName(name string) field.ErrorList {
	if name == settingsv1alpha2.Name {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, "only settings called default are looked at: rename it")}
}

func checkTargets(targets []settingsv1alpha2.TargetLimit, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range targets {
		for _, msg := range validation.IsQualifiedName(t.Label) {
			errs = append(errs, field.Invalid(path.Child("targets").Index(i).Child("label"), t.Label, "is not a key of a label: "+msg))
		}
	}
	return errs
}

func checkWeights(weights []settingsv1alpha2.Weight, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, w := range weights {
		at := path.Index(i)
		switch {
		case (w.Namespace == "") == (w.NamespaceSelector == nil):
			errs = append(errs, field.Invalid(at, w.Namespace, "name either a namespace or a namespaceSelector"))
		case w.NamespaceSelector != nil:
			errs = append(errs, checkSelector(w.NamespaceSelector, at.Child("namespaceSelector"))...)
		}
		if w.Weight < 1 {
			errs = append(errs, field.Invalid(at.Child("weight"), w.Weight, "must be at least 1; limits keep a namespace from starting anything"))
		}
	}
	return errs
}

func checkSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

func checkPhase(d *settingsv1alpha2.PhaseDefaults, path *field.Path) field.ErrorList {
	if d == nil || d.Resources == nil {
		return nil
	}
	var errs field.ErrorList
	for name, limit := range d.Resources.Limits {
		if request, ok := d.Resources.Requests[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("resources", "requests").Key(string(name)), request.String(),
				fmt.Sprintf("is more than the limit, which is %s: lower it, or raise the limit", limit.String())))
		}
	}
	for _, l := range []corev1.ResourceList{d.Resources.Limits, d.Resources.Requests} {
		for name, q := range l {
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(path.Child("resources").Key(string(name)), q.String(), "must not be negative"))
			}
		}
	}
	return errs
}

func checkJobs(j *settingsv1alpha2.Jobs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range j.ImagePullSecrets {
		errs = append(errs, checkObjectName("Secret", s.Name, path.Child("imagePullSecrets").Index(i).Child("name"))...)
	}
	for i, v := range j.Env {
		at := path.Child("env").Index(i)
		for _, msg := range validation.IsEnvVarName(v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, msg))
		}
		if isContractEnv(v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "is set by the operator, which images rely on: choose another name"))
		}
		if v.Value != "" && v.ValueFrom != nil {
			errs = append(errs, field.Invalid(at, v.Name, "has both value and valueFrom: remove one"))
		}
	}
	if j.Proxy != nil {
		errs = append(errs, checkProxy(j.Proxy.HTTP, path.Child("proxy", "http"))...)
		errs = append(errs, checkProxy(j.Proxy.HTTPS, path.Child("proxy", "https"))...)
	}
	if j.CACertificate != nil {
		errs = append(errs, checkObjectName("ConfigMap", j.CACertificate.ConfigMap, path.Child("caCertificate", "configMap"))...)
	}
	return errs
}

func checkObjectName(kind, name string, path *field.Path) field.ErrorList {
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return field.ErrorList{field.Invalid(path, name, "is not a valid name of a "+kind+": "+msgs[0])}
	}
	return nil
}

func checkProxy(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme):
		return field.ErrorList{field.Invalid(path, shown(u), "must be the URL of a proxy, such as http://proxy.example.com:3128")}
	case u.User != nil:
		return field.ErrorList{
			field.Invalid(path, u.Redacted(), "holds credentials, which whoever may read pods could read: set the variable in jobs.env from a Secret instead"),
		}
	}
	return nil
}

// shown returns a URL without its password, or "" for a URL that is not valid.
func shown(u *url.URL) string {
	if u == nil {
		return "(unreadable URL)"
	}
	return u.Redacted()
}

func checkAllowed(a *settingsv1alpha2.Allowed, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := volumeTypes()
	for i, t := range ptr.Deref(a.VolumeTypes, nil) {
		if !slices.Contains(known, string(t)) {
			errs = append(errs, field.NotSupported(path.Child("volumeTypes").Index(i), string(t), known))
		}
	}
	for i, name := range ptr.Deref(a.ServiceAccounts, nil) {
		errs = append(errs, checkObjectName("ServiceAccount", name, path.Child("serviceAccounts").Index(i))...)
	}
	return errs
}

func checkStorage(s *settingsv1alpha2.Storage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Bucket != "" {
		errs = append(errs, checkBucket(s.Bucket, path.Child("bucket"))...)
	}
	if s.CredentialsSecret != "" {
		errs = append(errs, checkObjectName("Secret", s.CredentialsSecret, path.Child("credentialsSecret"))...)
		if s.Bucket == "" {
			errs = append(errs, field.Required(path.Child("bucket"), "the bucket that the credentials are for"))
		}
	}
	for part := range strings.SplitSeq(s.Prefix, "/") {
		if part == "." || part == ".." || part == "" && s.Prefix != "" {
			errs = append(errs, field.Invalid(path.Child("prefix"), s.Prefix, "must be folders with slashes between, such as team-a/scans, without . and .."))
			break
		}
	}
	return errs
}

func checkBucket(name string, path *field.Path) field.ErrorList {
	const minLength, maxLength = 3, 63
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 || len(name) < minLength || len(name) > maxLength {
		return field.ErrorList{field.Invalid(path, name, "is not a valid name of a bucket: 3 to 63 lower case letters, digits, dots and hyphens")}
	}
	return nil
}
