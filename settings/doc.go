// SPDX-License-Identifier: Apache-2.0

// Package settings decides what holds for the Scans of a namespace.
//
//	operator's flags ◄ ClusterScanSetting ◄ ScanSetting ──► Effective ──► limits, deadlines, Jobs
//	   (defaults)        (bounds, defaults)   (tightens)      (patches over Jobs)
//
// Compute is the one function that puts the three together. A bound of a namespace counts only
// where it is tighter than the cluster's, whatever is stored: what a later change of the
// cluster's makes too wide is cut, not believed.
//
// A setting with a mistake is refused at admission (ValidateScanSetting,
// ValidateClusterScanSetting). One that is stored nevertheless gets a condition, and the last
// spec without a mistake stays in force. That one stands in status.inForce, so that it outlives
// the operator, and so that what is in force can be computed from the stored objects alone
// (InForce, ClusterInForce): nobody has to wait for the controller.
//
// Patches are applied by kustomize, which stays in this package, to the Job that is about to be
// created. After each patch a guard compares the Job with the one before: what the contract or
// isolation depends on must be as it was. Validation tries patches on samples of Jobs; the
// operator's builders of Jobs write and check these.
//
// Everything here is pure: operator, webhook and command line compute the same.
package settings
