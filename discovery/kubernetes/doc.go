// SPDX-License-Identifier: Apache-2.0

// Package kubernetes finds what runs in a cluster and has it scanned: Services, container
// images, Ingresses and HTTPRoutes to ScheduledScans.
//
//	namespaces, services, pods, …  ─┐
//	scan types                      ├─► observe ─► decide ─► act ─► ScheduledScans
//	ScheduledScans that there are  ─┘   (caches)   (pure)    (only what differs)
//
// One pass looks at one namespace as a whole and says which ScheduledScans there should
// be. It compares them with those that there are and writes the difference. So nothing
// is missed while the discovery is away, changes of the configuration, of a namespace's
// annotations or labels reach what exists, and what nobody wants any longer goes.
// Nothing is remembered between passes but for how long something has been unwanted.
//
// The objects are those of secureCodeBox's auto-discovery, name by name and label by
// label, so that it can be replaced in place. What is ours is known by the field manager
// that wrote it, and not by labels, which another discovery has too.
package kubernetes
