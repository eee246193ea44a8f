// SPDX-License-Identifier: Apache-2.0

// Package tenancy keeps the results of package settings up to date in the cluster.
//
//	ClusterScanSetting, ScanSetting, Namespace ─► Source ─► settings.Effective of a namespace
//	                                            └► Reconciler ─► conditions, status.inForce
//
// Source reads from the cache and computes again only when an object has changed. Reconciler writes
// on the settings whether they are in force. Buckets decides which storage a namespace may use,
// QueueFeeder hands limits to the queue.
package tenancy
