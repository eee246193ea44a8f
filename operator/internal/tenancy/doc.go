// SPDX-License-Identifier: Apache-2.0

// Package tenancy keeps what package settings computes up to date in the cluster.
//
//	ClusterScanSetting, ScanSetting, Namespace ─► Source ─► settings.Effective of a namespace
//	                                            └► Reconciler ─► conditions, status.inForce
//
// Source answers from the cache and computes again only when an object has changed. Reconciler
// says on the settings whether they are in force. Buckets says which storage a namespace may
// use, QueueFeeder hands limits to the queue.
package tenancy
