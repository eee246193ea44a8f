// SPDX-License-Identifier: Apache-2.0

package inforce_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/tenancy/inforce"
)

var now = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// setting returns the second generation of a namespace's settings; the first is in force.
func setting(change func(*settingsv1alpha2.ScanSetting)) *settingsv1alpha2.ScanSetting {
	s := &settingsv1alpha2.ScanSetting{
		ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Namespace: "team", Generation: 2},
		Status:     settingsv1alpha2.ScanSettingStatus{InForceGeneration: 1, InForce: &settingsv1alpha2.ScanSettingSpec{}},
	}
	change(s)
	return s
}

// anyStorage returns settings of the cluster that let namespaces choose where results lie.
func anyStorage() *settingsv1alpha2.ClusterScanSetting {
	c := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Generation: 1}}
	c.Spec.Storage = &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}
	return c
}

func withPrefix(s *settingsv1alpha2.ScanSetting) {
	s.Spec.Storage = &settingsv1alpha2.Storage{Prefix: "team"}
}

func invalid(s *settingsv1alpha2.ScanSetting) {
	s.Spec.TTL = &settingsv1alpha2.TTL{DefaultSeconds: new(int32(2)), MaxSeconds: new(int32(1))}
}

func TestDecideSettingOfANamespace(t *testing.T) {
	type result struct {
		Reason            string
		Ready             metav1.ConditionStatus
		InForceGeneration int64
		Event             bool
		RequeueAfter      time.Duration
	}
	for name, c := range map[string]struct {
		reason  string
		observe inforce.Observation
		want    result
	}{
		"valid": {
			reason:  "a valid spec is in force, and nobody is told of what is as it should be",
			observe: inforce.Observation{Setting: setting(func(*settingsv1alpha2.ScanSetting) {})},
			want:    result{Reason: settingsv1alpha2.ReasonAccepted, Ready: metav1.ConditionTrue, InForceGeneration: 2},
		},
		"invalid": {
			reason:  "the last valid settings stay in force",
			observe: inforce.Observation{Setting: setting(invalid)},
			want:    result{Reason: settingsv1alpha2.ReasonInvalid, Ready: metav1.ConditionFalse, InForceGeneration: 1, Event: true},
		},
		"still invalid": {
			reason: "an Event is sent once for a reason",
			observe: inforce.Observation{Setting: setting(func(s *settingsv1alpha2.ScanSetting) {
				invalid(s)
				meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
					Type: settingsv1alpha2.ConditionReady, Status: metav1.ConditionFalse, Reason: settingsv1alpha2.ReasonInvalid,
				})
			})},
			want: result{Reason: settingsv1alpha2.ReasonInvalid, Ready: metav1.ConditionFalse, InForceGeneration: 1},
		},
		"storage can be used": {
			reason:  "no watch shows when storage goes away",
			observe: inforce.Observation{Cluster: anyStorage(), Setting: setting(withPrefix)},
			want: result{
				Reason: settingsv1alpha2.ReasonAccepted, Ready: metav1.ConditionTrue, InForceGeneration: 2, RequeueAfter: 10 * time.Minute,
			},
		},
		"storage cannot be used": {
			reason:  "the settings are in force all the same, and storage is checked again soon",
			observe: inforce.Observation{Cluster: anyStorage(), Setting: setting(withPrefix), StorageError: errors.New("no such bucket")},
			want: result{
				Reason: settingsv1alpha2.ReasonStorageUnavailable, Ready: metav1.ConditionFalse, InForceGeneration: 2, Event: true,
				RequeueAfter: 15 * time.Second,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.observe.Now = now
			d := inforce.Decide(&c.observe)
			if d.Status == nil || d.ClusterStatus != nil {
				t.Fatalf("got %+v, want the status of a namespace's settings", d)
			}
			ready := meta.FindStatusCondition(d.Status.Conditions, settingsv1alpha2.ConditionReady)
			got := result{ready.Reason, ready.Status, d.Status.InForceGeneration, d.Event != nil, d.RequeueAfter}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestDecideTwiceWritesOnce(t *testing.T) {
	for name, change := range map[string]func(*settingsv1alpha2.ScanSetting){"invalid": invalid, "valid": withPrefix} {
		t.Run(name, func(t *testing.T) {
			s := setting(change)
			s.Status = *inforce.Decide(&inforce.Observation{Now: now, Setting: s}).Status
			if d := inforce.Decide(&inforce.Observation{Now: now.Add(time.Hour), Setting: s}); d.Status != nil || d.Event != nil {
				t.Errorf("got %+v, want nothing to write", d)
			}
		})
	}
}

func TestDecideSettingOfTheCluster(t *testing.T) {
	s := &settingsv1alpha2.ClusterScanSetting{
		ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Generation: 1},
		Spec: settingsv1alpha2.ClusterScanSettingSpec{JobPatches: []settingsv1alpha2.JobPatch{{
			Target: &settingsv1alpha2.PatchTarget{ScanTypes: []string{"nmap"}},
		}}},
	}
	o := &inforce.Observation{Now: now, Cluster: s}
	if !o.NeedsInstalled() {
		t.Error("got false, want true: a patch names a ScanType")
	}
	d := inforce.Decide(o)
	if d.ClusterStatus == nil || d.ClusterStatus.InForce != nil || d.RequeueAfter != 0 {
		t.Fatalf("got %+v, want no settings in force and no later check", d)
	}
	if d.Event == nil || !strings.HasPrefix(d.Event.Message, "These settings are not in force, none are: ") {
		t.Errorf("got the Event %+v, want one that says that no settings are in force", d.Event)
	}
}
