// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
)

// A later version is converted to and from this one.
var (
	_ conversion.Hub = (*settingsv1alpha1.ScanSetting)(nil)
	_ conversion.Hub = (*settingsv1alpha1.ClusterScanSetting)(nil)
)
