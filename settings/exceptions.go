// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// ExceptionLimits bound the exceptions of a namespace, or of the cluster.
type ExceptionLimits struct {
	// MaxDuration is the longest time from the creation to the end; 0 for no bound.
	MaxDuration time.Duration
	// RequireSecondPerson means that the creator of an exception may not set a later end.
	RequireSecondPerson bool
	// AllowedStatuses are the statuses that exceptions may have; nil for all.
	AllowedStatuses []settingsv1alpha2.ExceptionStatus
	// MaxSeverity is the highest severity that may be suppressed; "" for no bound.
	MaxSeverity string
	// MaxPerNamespace is the maximum number of exceptions.
	MaxPerNamespace int
}

// severities are all severities, the lowest first.
var severities = []string{"INFORMATIONAL", "LOW", "MEDIUM", "HIGH"}

// ExceptionsOf returns the limits of a namespace. Cluster and own are specs in force, nil for none; without own, the limits
// are those of the cluster.
func ExceptionsOf(cluster *settingsv1alpha2.ClusterScanSettingSpec, own *settingsv1alpha2.ScanSettingSpec) ExceptionLimits {
	limits := ExceptionLimits{MaxPerNamespace: settingsv1alpha2.DefaultMaxExceptions}
	if cluster != nil && cluster.Exceptions != nil {
		limits.take(cluster.Exceptions)
	}
	if own != nil && own.Exceptions != nil {
		if n := own.Exceptions.MaxPerNamespace; n != nil && (cluster == nil || cluster.Exceptions == nil || cluster.Exceptions.MaxPerNamespace == nil) {
			limits.MaxPerNamespace = int(*n) // a namespace may have more than the default
		}
		limits.tighten(own.Exceptions)
	}
	return limits
}

func (l *ExceptionLimits) take(s *settingsv1alpha2.ExceptionLimits) {
	l.MaxDuration, l.RequireSecondPerson = period(s.MaxDuration), ptr.Deref(s.RequireSecondPerson, false)
	l.AllowedStatuses, l.MaxSeverity = s.AllowedStatuses, s.MaxSeverity
	l.MaxPerNamespace = int(ptr.Deref(s.MaxPerNamespace, settingsv1alpha2.DefaultMaxExceptions))
}

// tighten applies the limits of a namespace as far as they are tighter than those of the cluster.
func (l *ExceptionLimits) tighten(own *settingsv1alpha2.ExceptionLimits) {
	if d := period(own.MaxDuration); d > 0 && (l.MaxDuration == 0 || d < l.MaxDuration) {
		l.MaxDuration = d
	}
	l.RequireSecondPerson = l.RequireSecondPerson || ptr.Deref(own.RequireSecondPerson, false)
	switch {
	case l.AllowedStatuses == nil:
		l.AllowedStatuses = own.AllowedStatuses
	case own.AllowedStatuses != nil:
		both := []settingsv1alpha2.ExceptionStatus{} // an empty list, which allows no status; nil would allow all
		for _, s := range l.AllowedStatuses {
			if slices.Contains(own.AllowedStatuses, s) {
				both = append(both, s)
			}
		}
		l.AllowedStatuses = both
	}
	if own.MaxSeverity != "" && (l.MaxSeverity == "" || rank(own.MaxSeverity) < rank(l.MaxSeverity)) {
		l.MaxSeverity = own.MaxSeverity
	}
	if n := own.MaxPerNamespace; n != nil && int(*n) < l.MaxPerNamespace {
		l.MaxPerNamespace = int(*n)
	}
}

// Severities returns the severities up to MaxSeverity.
func (l *ExceptionLimits) Severities() []string {
	if l.MaxSeverity == "" {
		return severities
	}
	return severities[:rank(l.MaxSeverity)+1]
}

func rank(severity string) int { return slices.Index(severities, severity) }

// period parses a number of days or hours; 0 for none. The schema accepts no other text.
func period(text string) time.Duration {
	unit := time.Hour
	if strings.HasSuffix(text, "d") {
		unit = 24 * time.Hour
	}
	n, err := strconv.Atoi(strings.TrimRight(text, "dh"))
	if err != nil || n < 0 || n > int(int64(1<<62)/int64(unit)) {
		return 0
	}
	return time.Duration(n) * unit
}

// exceptionBounds returns which limits of a namespace are wider than those of the cluster.
func exceptionBounds(cluster, own *settingsv1alpha2.ExceptionLimits, path *field.Path) (errs field.ErrorList) {
	if cluster == nil || own == nil {
		return nil
	}
	wider := func(name string, value any, bound string) {
		errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf(
			"is wider than spec.exceptions.%s of the ClusterScanSetting, which is %s: tighten it, or leave it out", name, bound)))
	}
	if own.MaxDuration != "" && cluster.MaxDuration != "" && period(own.MaxDuration) > period(cluster.MaxDuration) {
		wider("maxDuration", own.MaxDuration, cluster.MaxDuration)
	}
	if own.MaxSeverity != "" && cluster.MaxSeverity != "" && rank(own.MaxSeverity) > rank(cluster.MaxSeverity) {
		wider("maxSeverity", own.MaxSeverity, cluster.MaxSeverity)
	}
	if !ptr.Deref(own.RequireSecondPerson, true) && ptr.Deref(cluster.RequireSecondPerson, false) {
		wider("requireSecondPerson", false, "true")
	}
	for i, s := range own.AllowedStatuses {
		if cluster.AllowedStatuses != nil && !slices.Contains(cluster.AllowedStatuses, s) {
			errs = append(errs, field.NotSupported(path.Child("allowedStatuses").Index(i), s, cluster.AllowedStatuses))
		}
	}
	return append(errs, tooWide(path.Child("maxPerNamespace"), own.MaxPerNamespace, cluster.MaxPerNamespace, "spec.exceptions.maxPerNamespace")...)
}

// Refuse returns an error for each field of an exception that is beyond the limits. The exception is new or its spec was changed.
func (l *ExceptionLimits) Refuse(x *Excepting) (errs field.ErrorList) {
	spec, path := x.Spec, field.NewPath("spec")
	if l.AllowedStatuses != nil && !slices.Contains(l.AllowedStatuses, spec.Status) {
		errs = append(errs, field.NotSupported(path.Child("status"), spec.Status, l.AllowedStatuses))
	}
	if !spec.Status.Suppresses() {
		return errs
	}
	if l.MaxSeverity != "" && !x.Cluster {
		for i := range spec.Match.AnyOf {
			errs = append(errs, l.refuseSeverities(spec.Match.AnyOf[i].Severities, path.Child("match", "anyOf").Index(i).Child("severities"))...)
		}
	}
	return append(errs, l.refuseEnd(x, path.Child("expiresAt"))...)
}

// Excepting is a request to create or change an exception.
type Excepting struct {
	Spec *settingsv1alpha2.ExceptionSpec
	// Cluster means that the exception is a ClusterFindingException.
	Cluster bool
	// Before is the old spec; nil for a new exception.
	Before *settingsv1alpha2.ExceptionSpec
	// User makes the request; Creator created the exception, "" if that is not known.
	User, Creator string
	Now           time.Time
}

func (l *ExceptionLimits) refuseSeverities(named []string, path *field.Path) field.ErrorList {
	asked := fmt.Sprintf("exceptions of a namespace may suppress up to %s (exceptions.maxSeverity of the settings): "+
		"list the severities that are meant", l.MaxSeverity)
	if len(named) == 0 {
		return field.ErrorList{field.Required(path, asked)}
	}
	for i, s := range named {
		if rank(s) > rank(l.MaxSeverity) {
			return field.ErrorList{field.Invalid(path.Index(i), s, asked+", or ask the cluster admin for a ClusterFindingException")}
		}
	}
	return nil
}

// refuseEnd returns why the exception may not end as late as it does. An unchanged end is allowed.
func (l *ExceptionLimits) refuseEnd(x *Excepting, path *field.Path) field.ErrorList {
	end := x.Spec.ExpiresAt
	suppressed := x.Before != nil && x.Before.Status.Suppresses()
	if suppressed && !later(end, x.Before.ExpiresAt) {
		return nil
	}
	if l.RequireSecondPerson && suppressed {
		switch x.Creator {
		case "":
			return field.ErrorList{field.Forbidden(path, "a later end needs a second person (exceptions.requireSecondPerson of the settings), and who made this "+
				"exception is not known: make another one")}
		case x.User:
			return field.ErrorList{field.Forbidden(path, fmt.Sprintf("%s has made this exception: somebody else has to set a later end "+
				"(exceptions.requireSecondPerson of the settings)", x.Creator))}
		}
	}
	switch {
	case l.MaxDuration == 0:
		return nil
	case end == nil:
		return field.ErrorList{field.Required(path, fmt.Sprintf("exceptions last for at most %s (exceptions.maxDuration of the settings)", days(l.MaxDuration)))}
	case end.After(x.Now.Add(l.MaxDuration)):
		return field.ErrorList{field.Invalid(path, end.UTC().Format(time.RFC3339), fmt.Sprintf(
			"exceptions last for at most %s (exceptions.maxDuration of the settings): set an end before %s",
			days(l.MaxDuration), x.Now.Add(l.MaxDuration).UTC().Format(time.RFC3339)))}
	}
	return nil
}

// later reports whether an end is later than the old one. No end is the latest.
func later(end, before *metav1.Time) bool {
	return before != nil && (end == nil || end.After(before.Time))
}

func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return strconv.Itoa(int(d/time.Hour)) + "h"
}
