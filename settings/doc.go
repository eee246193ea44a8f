// SPDX-License-Identifier: Apache-2.0

// Package settings computes the settings in force for the Scans of a namespace.
//
//	operator's flags ◄ ClusterScanSetting ◄ ScanSetting ──► Effective ──► limits, deadlines, Jobs
//	   (defaults)        (bounds, defaults)   (tightens)      (patches over Jobs)
//
// Compute is the one function that combines the three. A bound of a namespace counts only where it is
// tighter than the cluster's, whatever is stored: a stored bound that a later change of the cluster's
// settings makes too wide is cut.
//
// A setting with a mistake is refused at admission (ValidateScanSetting, ValidateClusterScanSetting). A
// stored one gets a condition, and the last valid spec stays in force. The last valid spec is in
// status.inForce, so that it outlives the operator, and so that the settings in force can be computed
// from the stored objects alone (InForce, ClusterInForce): no reader has to wait for the controller.
//
// Patches are applied by kustomize, which only this package imports, to a Job before it is created.
// After each patch a guard compares the Job with the one before: fields on which the contract or
// isolation depends must not change. Validation tries patches on samples of Jobs; tests of the
// operator's builders write and check these samples.
//
// The whole package is pure: operator, webhook and command line compute the same.
package settings
