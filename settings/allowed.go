// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Allowed is what pods may use. The zero value allows everything.
type Allowed struct {
	volumeTypes, serviceAccounts *[]string
	// hostPath means that the list of the cluster names hostPath; the absence of a list does not mean that.
	hostPath bool
}

func allowed(cluster, own *settingsv1alpha2.Allowed) Allowed {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Allowed{}), ptr.Deref(own, settingsv1alpha2.Allowed{})
	return Allowed{
		volumeTypes:     both(texts(c.VolumeTypes), texts(n.VolumeTypes)),
		serviceAccounts: both(c.ServiceAccounts, n.ServiceAccounts),
		hostPath:        c.VolumeTypes != nil && slices.Contains(*c.VolumeTypes, "hostPath"),
	}
}

func texts(types *[]settingsv1alpha2.VolumeType) *[]string {
	if types == nil {
		return nil
	}
	out := []string{}
	for _, t := range *types {
		out = append(out, string(t))
	}
	return &out
}

// both returns the entries that are on both lists; nil is a list of everything.
func both(a, b *[]string) *[]string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := []string{}
	for _, v := range *a {
		if slices.Contains(*b, v) {
			out = append(out, v)
		}
	}
	return &out
}

// Volumes returns which volume is not allowed, and what to do; "" if all are. Path is the field of
// the volumes, such as spec.volumes.
func (a Allowed) Volumes(path string, volumes []corev1.Volume) string {
	for i := range volumes {
		if kind := VolumeType(&volumes[i]); a.volumeTypes != nil && !slices.Contains(*a.volumeTypes, kind) {
			return fmt.Sprintf(
				"%s[%d]: volume %q is of type %s, which the settings do not allow; they allow %s (spec.allowed.volumeTypes of ScanSetting and "+
					"ClusterScanSetting): use one of those, or ask the cluster admin",
				path, i, volumes[i].Name, kind, list(*a.volumeTypes),
			)
		}
	}
	return ""
}

// ServiceAccount returns that the ServiceAccount of pods is not allowed, and what to do; "" if it is
// allowed, or if the name is empty. Path is the field of the name.
func (a Allowed) ServiceAccount(path, name string) string {
	if name == "" || a.serviceAccounts == nil || slices.Contains(*a.serviceAccounts, name) {
		return ""
	}
	return fmt.Sprintf(
		"%s: ServiceAccount %q is not allowed by the settings; they allow %s (spec.allowed.serviceAccounts of ScanSetting and ClusterScanSetting): leave "+
			"it out, use one of those, or ask the cluster admin",
		path, name, list(*a.serviceAccounts),
	)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// VolumeType returns the type of a volume: the name of its field in a pod. A volume without a source
// is an emptyDir, which is the default of the API server.
func VolumeType(v *corev1.Volume) string {
	s := reflect.ValueOf(v.VolumeSource)
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "emptyDir"
}

// volumeTypes returns all types of volumes.
func volumeTypes() []string {
	var all []string
	for f := range reflect.TypeFor[corev1.VolumeSource]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
