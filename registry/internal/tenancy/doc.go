// SPDX-License-Identifier: Apache-2.0

// Package tenancy tells what is in force for the Registries of a namespace.
//
//	chart's values ◄ ClusterScanSetting ◄ ScanSetting ──Of──► Limits: quotas, hosts, weight
//	                 (may not be served)
//
// What it decides:
//
//   - The tightest bound holds, whatever is stored: nothing of a namespace widens what the cluster or the installation says.
//   - A setting with a mistake does not count; what its status has as inForce does, as in the operator.
//   - Clusters without the kinds of settings have the bounds of the installation, and all namespaces weigh alike.
package tenancy
