// SPDX-License-Identifier: Apache-2.0

package vexdoc

import (
	"k8s.io/apimachinery/pkg/api/equality"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Over is what a stored exception becomes that the statement is imported over: what the statement says. An end that somebody
// has set stays where the document has none. False: the stored exception says all of that already.
func (s *Statement) Over(stored *settingsv1alpha2.ExceptionSpec) (settingsv1alpha2.ExceptionSpec, bool) {
	spec := *s.Spec.DeepCopy()
	if spec.ExpiresAt == nil {
		spec.ExpiresAt = stored.ExpiresAt
	}
	return spec, !equality.Semantic.DeepEqual(&spec, stored)
}
