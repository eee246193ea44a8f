// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"slices"
	"strings"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// unlike says how two Scans differ in what they have scanned, so that what is fixed may only not have been looked at; "" for
// Scans of the same type and parameters.
func unlike(before, after *executionv1.Scan) string {
	var what string
	switch {
	case before.Spec.ScanType != after.Spec.ScanType:
		what = fmt.Sprintf("types differ: %s has %s, %s has %s", before.Name, before.Spec.ScanType, after.Name, after.Spec.ScanType)
	case !slices.Equal(before.Spec.Parameters, after.Spec.Parameters):
		what = fmt.Sprintf("parameters differ: %s has %q, %s has %q",
			before.Name, strings.Join(before.Spec.Parameters, " "), after.Name, strings.Join(after.Spec.Parameters, " "))
	default:
		return ""
	}
	return termsafe.Line(what) + ": what is called fixed may only not have been looked at"
}
