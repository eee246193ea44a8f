// SPDX-License-Identifier: Apache-2.0

package vexdoc_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/vexdoc"
)

func TestOver(t *testing.T) {
	end, later := metav1.NewTime(now), metav1.NewTime(now.AddDate(0, 0, 1))
	spec := func(reason string, end *metav1.Time) settingsv1alpha2.ExceptionSpec {
		return settingsv1alpha2.ExceptionSpec{Reason: reason, ExpiresAt: end}
	}
	for name, tc := range map[string]struct {
		says, stored settingsv1alpha2.ExceptionSpec
		reason       string
		end          *metav1.Time
		changed      bool
	}{
		"Same":        {spec("a", nil), spec("a", nil), "a", nil, false},
		"Other":       {spec("b", nil), spec("a", nil), "b", nil, true},
		"KeepsItsEnd": {spec("a", nil), spec("a", &end), "a", &end, false},
		"MovesItsEnd": {spec("a", &later), spec("a", &end), "a", &later, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := (&vexdoc.Statement{Spec: tc.says}).Over(&tc.stored)
			if got.Reason != tc.reason || !got.ExpiresAt.Equal(tc.end) || changed != tc.changed {
				t.Errorf("got %+v, %v", got, changed)
			}
		})
	}
}
