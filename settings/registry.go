// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// checkRegistry returns the mistakes in the settings of Registries. The registry controller computes what is in force: it takes
// the tightest bound of the installation, the cluster and the namespace.
func checkRegistry(s *settingsv1alpha2.RegistryScanning, at *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	for i, pattern := range s.AllowedHosts {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, field.Invalid(at.Child("allowedHosts").Index(i), pattern, "is not a pattern of hosts: write it such as *.example.com"))
		}
	}
	if s.Quotas != nil && s.Quotas.BytesPerDay != nil && s.Quotas.BytesPerDay.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("quotas", "bytesPerDay"), s.Quotas.BytesPerDay.String(),
			"must be more than zero; denied lets nothing be done for Registries"))
	}
	return errs
}

// registryBounds returns which quotas of a namespace are wider than those of the cluster.
func registryBounds(cluster, own *settingsv1alpha2.RegistryScanning, at *field.Path) (errs field.ErrorList) {
	if cluster == nil || own == nil {
		return nil
	}
	if ptr.Deref(cluster.Denied, false) && !ptr.Deref(own.Denied, true) {
		errs = append(errs, field.Invalid(at.Child("denied"), false, "spec.registry.denied of the ClusterScanSetting is true: leave it out"))
	}
	c, n := ptr.Deref(cluster.Quotas, settingsv1alpha2.RegistryQuotas{}), ptr.Deref(own.Quotas, settingsv1alpha2.RegistryQuotas{})
	quotas := at.Child("quotas")
	for _, q := range []struct {
		name       string
		own, bound *int32
	}{
		{"registries", n.Registries, c.Registries},
		{"repositories", n.Repositories, c.Repositories},
		{"images", n.Images, c.Images},
		{"concurrent", n.Concurrent, c.Concurrent},
	} {
		errs = append(errs, tooWide(quotas.Child(q.name), q.own, q.bound, "spec.registry.quotas."+q.name)...)
	}
	return append(errs, tooMuch(quotas.Child("bytesPerDay"), n.BytesPerDay, c.BytesPerDay, "spec.registry.quotas.bytesPerDay")...)
}

// tooMuch is tooWide for quantities.
func tooMuch(at *field.Path, own, bound *resource.Quantity, by string) field.ErrorList {
	if own == nil || bound == nil || own.Cmp(*bound) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, own.String(),
		fmt.Sprintf("is more than %s of the ClusterScanSetting, which is %s: set it to %[2]s or less, or leave it out", by, bound.String()))}
}
