// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

const (
	accepted = settingsv1alpha2.ExceptionAccepted
	wrong    = settingsv1alpha2.ExceptionFalsePositive
	doubt    = settingsv1alpha2.ExceptionUnderInvestigation
)

type limits = settingsv1alpha2.ExceptionLimits

func TestExceptionsOf(t *testing.T) {
	const day = 24 * time.Hour
	statuses := func(s ...settingsv1alpha2.ExceptionStatus) []settingsv1alpha2.ExceptionStatus { return s }
	for name, c := range map[string]struct {
		cluster, own *limits
		want         ExceptionLimits
	}{
		"Nothing": {want: ExceptionLimits{MaxPerNamespace: 1000}},
		"Cluster": {
			cluster: &limits{MaxDuration: "90d", RequireSecondPerson: new(true), AllowedStatuses: statuses(accepted), MaxSeverity: "LOW", MaxPerNamespace: new(int32(5))},
			want:    ExceptionLimits{90 * day, true, statuses(accepted), "LOW", 5},
		},
		"Own": {
			own:  &limits{MaxDuration: "36h", AllowedStatuses: statuses(wrong), MaxSeverity: "HIGH", MaxPerNamespace: new(int32(2000))},
			want: ExceptionLimits{36 * time.Hour, false, statuses(wrong), "HIGH", 2000},
		},
		"Tightened": {
			cluster: &limits{MaxDuration: "90d", MaxSeverity: "HIGH", MaxPerNamespace: new(int32(100)), AllowedStatuses: statuses(accepted, wrong)},
			own:     &limits{MaxDuration: "7d", MaxSeverity: "LOW", MaxPerNamespace: new(int32(0)), AllowedStatuses: statuses(wrong), RequireSecondPerson: new(true)},
			want:    ExceptionLimits{7 * day, true, statuses(wrong), "LOW", 0},
		},
		"NeverWidened": {
			cluster: &limits{MaxDuration: "7d", MaxSeverity: "LOW", MaxPerNamespace: new(int32(3)), AllowedStatuses: statuses(accepted), RequireSecondPerson: new(true)},
			own:     &limits{MaxDuration: "90d", MaxSeverity: "HIGH", MaxPerNamespace: new(int32(100)), AllowedStatuses: statuses(wrong), RequireSecondPerson: new(false)},
			want:    ExceptionLimits{7 * day, true, statuses(), "LOW", 3},
		},
	} {
		got := ExceptionsOf(&clusterSpec{Exceptions: c.cluster}, &ownSpec{Exceptions: c.own})
		if len(c.want.AllowedStatuses) == 0 && c.want.AllowedStatuses == nil && c.cluster != nil && c.own != nil {
			c.want.AllowedStatuses = []settingsv1alpha2.ExceptionStatus{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := ExceptionsOf(nil, nil); got.MaxPerNamespace != 1000 {
		t.Errorf("without settings: %+v", got)
	}
}

// TestExceptionBounds: a namespace may only tighten.
func TestExceptionBounds(t *testing.T) {
	cluster := clusterSetting(clusterSpec{Exceptions: &limits{
		MaxDuration: "30d", RequireSecondPerson: new(true), AllowedStatuses: []settingsv1alpha2.ExceptionStatus{accepted}, MaxSeverity: "LOW", MaxPerNamespace: new(int32(5)),
	}})
	for name, c := range map[string]struct {
		own  limits
		want []string
	}{
		"Inside": {own: limits{MaxDuration: "720h", RequireSecondPerson: new(true), MaxSeverity: "LOW", MaxPerNamespace: new(int32(5)), AllowedStatuses: []settingsv1alpha2.ExceptionStatus{accepted}}},
		"Wider": {
			own: limits{MaxDuration: "721h", RequireSecondPerson: new(false), MaxSeverity: "MEDIUM", MaxPerNamespace: new(int32(6)), AllowedStatuses: []settingsv1alpha2.ExceptionStatus{wrong}},
			want: []string{
				"spec.exceptions.maxDuration", "spec.exceptions.maxSeverity", "spec.exceptions.requireSecondPerson", "spec.exceptions.allowedStatuses[0]",
				"spec.exceptions.maxPerNamespace",
			},
		},
	} {
		refused(t, name, c.want, ValidateScanSetting(cluster, setting(ownSpec{Exceptions: &c.own})))
	}
}

func TestRefuse(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	spec := func(status settingsv1alpha2.ExceptionStatus, days int, severities ...string) *settingsv1alpha2.ExceptionSpec {
		s := &settingsv1alpha2.ExceptionSpec{Status: status}
		if days != 0 {
			s.ExpiresAt = &metav1.Time{Time: now.Add(time.Duration(days) * 24 * time.Hour)}
		}
		s.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Severities: severities}}
		return s
	}
	month := &limits{MaxDuration: "30d"}
	second := &limits{MaxDuration: "30d", RequireSecondPerson: new(true)}
	for name, c := range map[string]struct {
		limits *limits
		x      Excepting
		says   string
	}{
		"NoLimits":              {nil, Excepting{Spec: spec(wrong, 0)}, ""},
		"Inside":                {month, Excepting{Spec: spec(accepted, 30)}, ""},
		"TooLong":               {month, Excepting{Spec: spec(accepted, 31)}, "spec.expiresAt: Invalid value: \"2026-12-24T12:00:00Z\": exceptions last for at most 30d"},
		"WithoutEnd":            {month, Excepting{Spec: spec(wrong, 0)}, "spec.expiresAt: Required value: exceptions last for at most 30d"},
		"OfTheClusterTooLong":   {month, Excepting{Spec: spec(accepted, 31), Cluster: true}, "at most 30d"},
		"InvestigatedForEver":   {month, Excepting{Spec: spec(doubt, 0)}, ""},
		"StoredStays":           {month, Excepting{Spec: spec(accepted, 99), Before: spec(accepted, 99)}, ""},
		"Shortened":             {month, Excepting{Spec: spec(accepted, 98), Before: spec(accepted, 99)}, ""},
		"EndSet":                {month, Excepting{Spec: spec(accepted, 98), Before: spec(wrong, 0)}, ""},
		"ExtendedByAnybody":     {month, Excepting{Spec: spec(accepted, 30), Before: spec(accepted, 1), User: "a", Creator: "a"}, ""},
		"ExtendedTooFar":        {month, Excepting{Spec: spec(accepted, 31), Before: spec(accepted, 1)}, "at most 30d"},
		"ExtendedByCreator":     {second, Excepting{Spec: spec(accepted, 30), Before: spec(accepted, 1), User: "a", Creator: "a"}, "a has made this exception: somebody else has to set a later end"},
		"ExtendedByAnother":     {second, Excepting{Spec: spec(accepted, 30), Before: spec(accepted, 1), User: "b", Creator: "a"}, ""},
		"ExtendedOfNobody":      {second, Excepting{Spec: spec(accepted, 30), Before: spec(accepted, 1), User: "b"}, "who made this exception is not known"},
		"EndTakenAway":          {second, Excepting{Spec: spec(wrong, 0), Before: spec(accepted, 1), User: "a", Creator: "a"}, "somebody else has to"},
		"ReasonByCreator":       {second, Excepting{Spec: spec(accepted, 1), Before: spec(accepted, 1), User: "a", Creator: "a"}, ""},
		"SuppressesByCreator":   {second, Excepting{Spec: spec(accepted, 30), Before: spec(doubt, 0), User: "a", Creator: "a"}, ""},
		"SuppressesTooLong":     {second, Excepting{Spec: spec(accepted, 31), Before: spec(doubt, 31), User: "a", Creator: "a"}, "at most 30d"},
		"MadeWithSecondPerson":  {second, Excepting{Spec: spec(accepted, 30), User: "a", Creator: "a"}, ""},
		"Status":                {&limits{AllowedStatuses: []settingsv1alpha2.ExceptionStatus{accepted}}, Excepting{Spec: spec(wrong, 0)}, `spec.status: Unsupported value: "FalsePositive": supported values: "Accepted"`},
		"SeverityUnsaid":        {&limits{MaxSeverity: "MEDIUM"}, Excepting{Spec: spec(wrong, 0)}, "spec.match.anyOf[0].severities: Required value: exceptions of a namespace may suppress up to MEDIUM"},
		"SeverityAbove":         {&limits{MaxSeverity: "MEDIUM"}, Excepting{Spec: spec(wrong, 0, "LOW", "HIGH")}, `spec.match.anyOf[0].severities[1]: Invalid value: "HIGH"`},
		"SeverityUpTo":          {&limits{MaxSeverity: "MEDIUM"}, Excepting{Spec: spec(wrong, 0, "LOW", "MEDIUM")}, ""},
		"SeverityOfTheCluster":  {&limits{MaxSeverity: "MEDIUM"}, Excepting{Spec: spec(wrong, 0), Cluster: true}, ""},
		"SeverityInvestigated":  {&limits{MaxSeverity: "MEDIUM"}, Excepting{Spec: spec(doubt, 0)}, ""},
		"SeverityOfInformation": {&limits{MaxSeverity: "INFORMATIONAL"}, Excepting{Spec: spec(wrong, 0, "LOW")}, "up to INFORMATIONAL"},
	} {
		l := ExceptionsOf(&clusterSpec{Exceptions: c.limits}, nil)
		c.x.Now = now
		errs := l.Refuse(&c.x)
		switch {
		case c.says == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case c.says != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.says)):
			t.Errorf("%s: %v, want %s", name, errs, c.says)
		}
	}
}
