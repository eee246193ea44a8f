// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// tooWide returns an error if the value of a namespace is more than the bound of the cluster.
func tooWide[T cmp.Ordered](path *field.Path, own, bound *T, by string) field.ErrorList {
	if own == nil || bound == nil || *own <= *bound {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *own,
		fmt.Sprintf("is more than %s of the ClusterScanSetting, which is %v: set it to %v or less, or leave it out", by, *bound, *bound))}
}

func limitBounds(c settingsv1alpha2.ClusterLimits, own *settingsv1alpha2.Limits, path *field.Path) field.ErrorList {
	bound, by := c.MaxRunningPerNamespace, "spec.limits.maxRunningPerNamespace"
	if bound == nil {
		bound, by = c.MaxRunning, "spec.limits.maxRunning"
	}
	errs := tooWide(path.Child("maxRunning"), own.MaxRunning, bound, by)
	types, targets := byScanType(c.ScanTypes), byTarget(c.Targets)
	for i, l := range own.ScanTypes {
		if bound, ok := types[l.Name]; ok {
			errs = append(errs, tooWide(path.Child("scanTypes").Index(i).Child("maxRunning"), &l.MaxRunning, &bound, "spec.limits.scanTypes["+l.Name+"]")...)
		}
	}
	for i, l := range own.Targets {
		if bound, ok := targets[l.Label]; ok {
			errs = append(errs, tooWide(path.Child("targets").Index(i).Child("maxRunning"), &l.MaxRunning, &bound, "spec.limits.targets["+l.Label+"]")...)
		}
	}
	return errs
}

func priorityBounds(cluster, own *settingsv1alpha2.Queue, path *field.Path) field.ErrorList {
	if cluster == nil || own == nil {
		return nil
	}
	return tooWide(path.Child("maxPriority"), own.MaxPriority, cluster.MaxPriority, "spec.queue.maxPriority")
}

func ttlBounds(cluster, own *settingsv1alpha2.TTL, path *field.Path) field.ErrorList {
	if cluster == nil || own == nil {
		return nil
	}
	return slices.Concat(
		tooWide(path.Child("defaultSeconds"), own.DefaultSeconds, cluster.MaxSeconds, "spec.ttl.maxSeconds"),
		tooWide(path.Child("maxSeconds"), own.MaxSeconds, cluster.MaxSeconds, "spec.ttl.maxSeconds"),
	)
}

func deadlineBounds(cluster, own *settingsv1alpha2.Deadlines, path *field.Path) field.ErrorList {
	if cluster == nil || own == nil {
		return nil
	}
	return slices.Concat(
		tooWide(path.Child("startSeconds"), own.StartSeconds, cluster.StartSeconds, "spec.deadlines.startSeconds"),
		tooWide(path.Child("scannerSeconds"), own.ScannerSeconds, cluster.ScannerSeconds, "spec.deadlines.scannerSeconds"),
		tooWide(path.Child("parserSeconds"), own.ParserSeconds, cluster.ParserSeconds, "spec.deadlines.parserSeconds"),
		tooWide(path.Child("hookSeconds"), own.HookSeconds, cluster.HookSeconds, "spec.deadlines.hookSeconds"),
	)
}

func allowedBounds(cluster, own *settingsv1alpha2.Allowed, path *field.Path) field.ErrorList {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Allowed{}), ptr.Deref(own, settingsv1alpha2.Allowed{})
	beyond := func(name string, cluster, own *[]string) field.ErrorList {
		var errs field.ErrorList
		for i, v := range ptr.Deref(own, nil) {
			if cluster != nil && !slices.Contains(*cluster, v) {
				errs = append(errs, field.NotSupported(path.Child(name).Index(i), v, *cluster))
			}
		}
		return errs
	}
	return slices.Concat(
		beyond("volumeTypes", texts(c.VolumeTypes), texts(n.VolumeTypes)),
		beyond("serviceAccounts", c.ServiceAccounts, n.ServiceAccounts),
	)
}

// privilegeBounds refuses privileged Jobs of a namespace, which patches of the namespace may not set either.
func privilegeBounds(own *settingsv1alpha2.Phases, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if own == nil {
		return nil
	}
	for _, p := range []struct {
		name     string
		defaults *settingsv1alpha2.PhaseDefaults
	}{{"scanner", own.Scanner}, {"parser", own.Parser}, {"hook", own.Hook}} {
		if p.defaults != nil && p.defaults.SecurityContext != nil && ptr.Deref(p.defaults.SecurityContext.Privileged, false) {
			errs = append(errs, field.Invalid(path.Child(p.name, "securityContext", "privileged"), true,
				"can be switched on by the ClusterScanSetting only: leave it out, or ask the cluster admin"))
		}
	}
	return errs
}

// storageProblems returns which storage of a namespace the cluster does not allow.
func storageProblems(c settingsv1alpha2.ClusterStorage, own settingsv1alpha2.Storage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if own.LinksInStatus != nil && *own.LinksInStatus && !ptr.Deref(c.LinksInStatus, true) {
		errs = append(errs, field.Invalid(path.Child("linksInStatus"), true,
			"is switched off by spec.storage.linksInStatus of the ClusterScanSetting: leave it out"))
	}
	if !ptr.Deref(c.AllowNamespaces, false) {
		for _, f := range []struct{ name, value string }{{"bucket", own.Bucket}, {"prefix", own.Prefix}, {"credentialsSecret", own.CredentialsSecret}} {
			if f.value != "" {
				errs = append(errs, field.Forbidden(
					path.Child(f.name),
					"the cluster does not let namespaces choose where results lie: leave it out, or ask the cluster admin to set spec.storage.allowNamespaces of "+
						"the ClusterScanSetting",
				))
			}
		}
		return errs
	}
	if own.Bucket != "" && own.CredentialsSecret == "" && !slices.Contains(c.Buckets, own.Bucket) {
		errs = append(errs, field.NotSupported(path.Child("bucket"), own.Bucket, c.Buckets))
		errs[len(errs)-1].Detail += " (spec.storage.buckets of the ClusterScanSetting), or any with a credentialsSecret"
	}
	return errs
}
