// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
)

// rules are the rules that a patch must keep.
type rules struct {
	// tenant says that a team wrote the patch.
	tenant  bool
	allowed Allowed
}

// violation says which rule a patch breaks, and what to do about it.
type violation struct {
	path    []string
	message string
}

func (v *violation) Error() string { return strings.Join(v.path, ".") + " " + v.message }

func violate(message string, path ...string) error { return &violation{path, message} }

// guard compares a Job with the patched one, and returns the first violation.
func (r rules) guard(before, after *batchv1.Job) error {
	checks := []func(before, after *batchv1.Job) error{
		guardMeta, guardJobSpec, r.guardPod, r.guardVolumes, r.guardContainers,
	}
	for _, check := range checks {
		if err := check(before, after); err != nil {
			return err
		}
	}
	return nil
}

// clusterOnly is the advice about fields that reach the node.
const clusterOnly = "reaches the node, and can be set by the cluster's settings only: ask the cluster admin"

const keep = "cannot be changed by a patch: "

// guardMeta keeps the identity of the Job, its owner, and the labels that find it.
func guardMeta(before, after *batchv1.Job) error {
	const why = keep + "the operator finds its Jobs by it; remove it from the patch"
	b, a := before.ObjectMeta.DeepCopy(), after.ObjectMeta.DeepCopy()
	pod, patched := before.Spec.Template.ObjectMeta, after.Spec.Template.ObjectMeta
	for _, m := range []struct {
		before, after map[string]string
		path          []string
	}{
		{b.Labels, a.Labels, []string{"metadata", "labels"}},
		{b.Annotations, a.Annotations, []string{"metadata", "annotations"}},
		{pod.Labels, patched.Labels, []string{"spec", "template", "metadata", "labels"}},
		{pod.Annotations, patched.Annotations, []string{"spec", "template", "metadata", "annotations"}},
	} {
		if key := changedKey(m.before, m.after); key != "" {
			return violate(why, append(m.path, key)...)
		}
	}
	b.Labels, b.Annotations, a.Labels, a.Annotations = nil, nil, nil, nil
	if path := changedField(reflect.ValueOf(*b), reflect.ValueOf(*a), nil); path != "" {
		return violate(why, "metadata", path)
	}
	pod.Labels, pod.Annotations, patched.Labels, patched.Annotations = nil, nil, nil, nil
	if path := changedField(reflect.ValueOf(pod), reflect.ValueOf(patched), nil); path != "" {
		return violate(keep+"pods have labels and annotations only; remove it from the patch", "spec", "template", "metadata", path)
	}
	return nil
}

// changedKey returns a key of ours that differs.
func changedKey(before, after map[string]string) string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := before[key]
		is, has := after[key]
		if isOurs(key) && (was != is || had != has) {
			return key
		}
	}
	return ""
}

// ourDomains are those of keys that the operator, the hooks or the Job controller read.
var ourDomains = []string{"securecodebox.io", "scanyard.io", "batch.kubernetes.io"}

// isOurs reports whether a label or annotation has a meaning for the life of a Scan.
func isOurs(key string) bool {
	if key == executionv1.LabelManagedBy {
		return true
	}
	domain, _, found := strings.Cut(key, "/")
	return found && slices.ContainsFunc(ourDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// changedField returns the JSON name of the first field that differs and is not free.
func changedField(before, after reflect.Value, free map[string]bool) string {
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
		if !free[name] && !equality.Semantic.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			return name
		}
	}
	return ""
}

// guardJobSpec keeps how often a Job runs: each of its pods is a try of the same phase.
func guardJobSpec(before, after *batchv1.Job) error {
	free := map[string]bool{"template": true, "ttlSecondsAfterFinished": true, "activeDeadlineSeconds": true}
	if name := changedField(reflect.ValueOf(before.Spec), reflect.ValueOf(after.Spec), free); name != "" {
		return violate(
			keep+"the operator relies on how the Job runs; of spec, template, ttlSecondsAfterFinished and activeDeadlineSeconds may be changed",
			"spec", name,
		)
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		return violate(keep+"it is the Job controller's; remove it from the patch", "status")
	}
	return nil
}

// fixedPod are the fields of a pod that decide which account it runs as and how it ends.
var fixedPod = []string{
	"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "restartPolicy",
	"hostPID", "hostIPC", "shareProcessNamespace", "ephemeralContainers",
}

func (r rules) guardPod(before, after *batchv1.Job) error {
	b, a := before.Spec.Template.Spec, after.Spec.Template.Spec
	free := map[string]bool{}
	for f := range reflect.TypeFor[corev1.PodSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		free[name] = !slices.Contains(fixedPod, name)
	}
	if name := changedField(reflect.ValueOf(b), reflect.ValueOf(a), free); name != "" {
		return violate(keep+"rights and isolation of the pod depend on it; remove it from the patch", "spec", "template", "spec", name)
	}
	if f := podReach(&a).beyond(podReach(&b)); r.tenant && f != "" {
		return violate(clusterOnly, append([]string{"spec", "template", "spec"}, strings.Split(f, ".")...)...)
	}
	return nil
}

// guardVolumes keeps the volumes of the operator, and lets no patch add a token.
func (r rules) guardVolumes(before, after *batchv1.Job) error {
	path := []string{"spec", "template", "spec", "volumes"}
	old := map[string]corev1.Volume{}
	for _, v := range before.Spec.Template.Spec.Volumes {
		old[v.Name] = v
	}
	seen := map[string]bool{}
	for i := range after.Spec.Template.Spec.Volumes {
		v := &after.Spec.Template.Spec.Volumes[i]
		was, had := old[v.Name]
		if seen[v.Name] {
			return violate("occurs twice: give the new volume another name", append(path, v.Name)...)
		}
		seen[v.Name] = true
		if had && equality.Semantic.DeepEqual(was, *v) {
			continue
		}
		if err := r.guardVolume(v, append(path, v.Name)); err != nil {
			return err
		}
	}
	for name := range old {
		if isOwnVolume(name) && !seen[name] {
			return violate(keep+"it is the operator's; do not remove it", append(path, name)...)
		}
	}
	return nil
}

// guardVolume checks a volume that a patch has added or changed.
func (r rules) guardVolume(v *corev1.Volume, path []string) error {
	if isOwnVolume(v.Name) {
		return violate(keep+"it is the operator's; give the volume another name", path...)
	}
	if hasToken(v) {
		return violate("holds an API token, which containers of Scans do not get: use a ScanType or hook with a ServiceAccount of its own", path...)
	}
	if r.tenant && v.HostPath != nil && !r.allowed.hostPath {
		return violate(clusterOnly+" for it, or to have hostPath on the list spec.allowed.volumeTypes of the ClusterScanSetting", path...)
	}
	if bad := r.allowed.Volumes("volumes", []corev1.Volume{*v}); r.tenant && bad != "" {
		return violate("is not allowed: "+bad, path...)
	}
	return nil
}

func hasToken(v *corev1.Volume) bool {
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}

func (r rules) guardContainers(before, after *batchv1.Job) error {
	b, a := before.Spec.Template.Spec, after.Spec.Template.Spec
	if err := r.guardList("containers", b.Containers, a.Containers); err != nil {
		return err
	}
	if len(b.Containers) > 0 && (len(a.Containers) == 0 || a.Containers[0].Name != b.Containers[0].Name) {
		return violate("has to stay the first one: add containers behind it", "spec", "template", "spec", "containers", b.Containers[0].Name)
	}
	return r.guardList("initContainers", b.InitContainers, a.InitContainers)
}

// guardList keeps every container of the Job, and what it runs.
func (r rules) guardList(name string, before, after []corev1.Container) error {
	now := map[string]*corev1.Container{}
	for i := range after {
		c := &after[i]
		if now[c.Name] != nil {
			return violate("occurs twice: give the new container another name", "spec", "template", "spec", name, c.Name)
		}
		now[c.Name] = c
	}
	for i := range before {
		c := &before[i]
		if now[c.Name] == nil {
			return violate("cannot be removed or renamed by a patch: the operator needs it; remove this from the patch", "spec", "template", "spec", name, c.Name)
		}
		if err := r.guardContainer(name, c, now[c.Name]); err != nil {
			return err
		}
		delete(now, c.Name)
	}
	for _, added := range slices.Sorted(maps.Keys(now)) {
		if err := r.guardContainer(name, &corev1.Container{Name: added}, now[added]); err != nil {
			return err
		}
	}
	return nil
}

func (r rules) guardContainer(list string, before, after *corev1.Container) error {
	path := func(f ...string) []string {
		return append([]string{"spec", "template", "spec", list, after.Name}, f...)
	}
	isNew := before.Image == ""
	if after.Name == executionv1.ContainerLurker {
		free := map[string]bool{"resources": true}
		if f := changedField(reflect.ValueOf(*before), reflect.ValueOf(*after), free); f != "" {
			return violate(keep+"the lurker uploads the result; only its resources may be patched", path(f)...)
		}
		return nil
	}
	if f := changedMount(before.VolumeMounts, after.VolumeMounts, isNew); f != "" {
		return violate(keep+"results and tokens are shared by this mount of volume "+f+"; remove it from the patch", path("volumeMounts")...)
	}
	if f := containerReach(after).beyond(containerReach(before)); r.tenant && f != "" {
		return violate(clusterOnly, path(strings.Split(f, ".")...)...)
	}
	if isNew {
		return nil
	}
	fixed := map[string]bool{"command": true, "args": true, "restartPolicy": true, "restartPolicyRules": true}
	free := map[string]bool{}
	for f := range reflect.TypeFor[corev1.Container]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		free[name] = !fixed[name]
	}
	if f := changedField(reflect.ValueOf(*before), reflect.ValueOf(*after), free); f != "" {
		return violate(keep+"ScanType, ParseDefinition, hook and Scan say what runs; change it there", path(f)...)
	}
	if f := changedEnv(before.Env, after.Env); f != "" {
		return violate(keep+"the image finds its Scan by it; remove it from the patch", path("env", f)...)
	}
	if after.Image == "" {
		return violate("cannot be empty", path("image")...)
	}
	return nil
}

// changedMount returns a volume of the operator whose mounts differ. A container that a patch adds may
// mount the results, and no tokens.
func changedMount(before, after []corev1.VolumeMount, isNew bool) string {
	own := func(mounts []corev1.VolumeMount) map[string][]corev1.VolumeMount {
		all := map[string][]corev1.VolumeMount{}
		for _, m := range mounts {
			if isOwnVolume(m.Name) && (!isNew || isLurkersVolume(m.Name)) {
				all[m.Name] = append(all[m.Name], m)
			}
		}
		return all
	}
	b, a := own(before), own(after)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !equality.Semantic.DeepEqual(b[name], a[name]) {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] == nil {
			return name
		}
	}
	return ""
}

// changedEnv returns a variable of the contract that differs.
func changedEnv(before, after []corev1.EnvVar) string {
	pick := func(env []corev1.EnvVar) map[string][]corev1.EnvVar {
		all := map[string][]corev1.EnvVar{}
		for _, v := range env {
			if isContractEnv(v.Name) {
				all[v.Name] = append(all[v.Name], v)
			}
		}
		return all
	}
	b, a := pick(before), pick(after)
	all := maps.Clone(b)
	maps.Copy(all, a)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !equality.Semantic.DeepEqual(b[name], a[name]) {
			return name
		}
	}
	return ""
}

// isOwnVolume reports whether a volume of a Job is one of the operator's.
func isOwnVolume(name string) bool {
	return slices.Contains([]string{executionv1.VolumeResults, executionv1.VolumeCACertificate, executionv1.VolumeNoToken}, name) || isLurkersVolume(name)
}

// isLurkersVolume reports whether a volume of a Job holds a token of the lurker, or what the lurker tells a parser in its pod.
func isLurkersVolume(name string) bool {
	return slices.Contains([]string{executionv1.VolumeLurkerToken, executionv1.VolumeUploadToken, executionv1.VolumeHandoff}, name)
}

// contractEnv are the variables by which images of parsers and hooks find their Scan, besides those of a handover.
var contractEnv = []string{
	executionv1.EnvNamespace, executionv1.EnvScanName, executionv1.EnvHookName, executionv1.EnvPreviousFindings, executionv1.EnvOutputs,
}

// isContractEnv reports whether images of parsers and hooks find their Scan by a variable.
func isContractEnv(name string) bool {
	return handover.IsVariable(name) || slices.Contains(contractEnv, name)
}
