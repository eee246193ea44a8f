// SPDX-License-Identifier: Apache-2.0

package scanconfig

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// maxName leaves room for the other parts of a ScheduledScan's name, and fits a label.
const maxName = validation.LabelValueMaxLength

// CompileAll compiles scanConfigs, whose names must differ.
func CompileAll(configs []ScanConfig, path *field.Path, sample any) ([]*Template, field.ErrorList) {
	var all []*Template
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range configs {
		at := path.Index(i)
		t, problems := Compile(&configs[i], at, sample)
		errs = append(errs, problems...)
		if names.Has(configs[i].Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), configs[i].Name))
		}
		names.Insert(configs[i].Name)
		all = append(all, t)
	}
	return all, errs
}

// validate returns what is wrong beside templates.
func (c *ScanConfig) validate(path *field.Path) field.ErrorList {
	errs := validName(path.Child("name"), c.Name, "it becomes part of the names of the ScheduledScans")
	if len(c.Name) > maxName {
		errs = append(errs, field.TooLong(path.Child("name"), c.Name, maxName))
	}
	errs = append(errs, validName(path.Child("scanType"), c.ScanType, "the name of a ScanType, such as nmap")...)
	errs = append(errs, c.validateTimes(path)...)
	errs = append(
		errs,
		oneOf(path.Child("concurrencyPolicy"), c.ConcurrencyPolicy, executionv1.AllowConcurrent, executionv1.ForbidConcurrent, executionv1.ReplaceConcurrent)...)
	errs = append(errs, oneOf(path.Child("resourceMode"), c.ResourceMode, executionv1.NamespaceLocal, executionv1.ClusterWide)...)
	errs = append(errs, notNegative(path.Child("ttlSecondsAfterFinished"), c.TTLSecondsAfterFinished)...)
	errs = append(errs, notNegative(path.Child("successfulJobsHistoryLimit"), c.SuccessfulJobsHistoryLimit)...)
	errs = append(errs, notNegative(path.Child("failedJobsHistoryLimit"), c.FailedJobsHistoryLimit)...)
	for k := range c.Labels {
		for _, msg := range validation.IsQualifiedName(k) {
			errs = append(errs, field.Invalid(path.Child("labels").Key(k), k, msg))
		}
	}
	for k := range c.Annotations {
		for _, msg := range validation.IsQualifiedName(strings.ToLower(k)) {
			errs = append(errs, field.Invalid(path.Child("annotations").Key(k), k, msg))
		}
	}
	return append(errs, c.validateLists(path)...)
}

func (c *ScanConfig) validateTimes(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Schedule == "" && c.RepeatInterval.Duration <= 0 {
		errs = append(errs, field.Required(path.Child("repeatInterval"), "how often to scan, such as 168h, or a cron expression in schedule"))
	}
	if c.Jitter.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("jitter"), c.Jitter.Duration.String(), "must not be negative"))
	}
	if s := c.StartingDeadlineSeconds; s != nil && *s < 10 {
		errs = append(errs, field.Invalid(path.Child("startingDeadlineSeconds"), *s, "must be at least 10"))
	}
	return errs
}

func (c *ScanConfig) validateLists(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range c.Env {
		if e.Name == "" {
			errs = append(errs, field.Required(path.Child("env").Index(i).Child("name"), "the name of the variable"))
		}
	}
	for i, v := range c.Volumes {
		if v.Name == "" {
			errs = append(errs, field.Required(path.Child("volumes").Index(i).Child("name"), "the name by which volumeMounts refer to the volume"))
		}
	}
	for i, m := range c.VolumeMounts {
		if m.Name == "" {
			errs = append(errs, field.Required(path.Child("volumeMounts").Index(i).Child("name"), "the name of a volume"))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(path.Child("volumeMounts").Index(i).Child("mountPath"), "where the container sees the volume"))
		}
	}
	return errs
}

func validName(path *field.Path, name, what string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, what)}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func notNegative(path *field.Path, n *int32) field.ErrorList {
	if n != nil && *n < 0 {
		return field.ErrorList{field.Invalid(path, *n, "must not be negative")}
	}
	return nil
}
