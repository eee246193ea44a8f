// SPDX-License-Identifier: Apache-2.0

// Package kubernetes finds what runs in a cluster and has it scanned: Services, container
// images, Ingresses and HTTPRoutes to ScheduledScans.
//
//	namespaces, services, pods, …  ─┐
//	scan types                      ├─► observe ─► decide ─► act ─► ScheduledScans
//	existing ScheduledScans        ─┘   (caches)   (pure)    (only what differs)
//
// One pass looks at one namespace as a whole and computes the ScheduledScans that it should have. The pass
// compares these with the existing ones and writes the difference. So nothing is missed while the discovery
// is away; changes of the configuration, of a namespace's annotations or labels reach existing objects, and
// objects that are not wanted any more are deleted. Between passes the discovery remembers only since when
// an object has not been wanted.
//
// The objects are those of secureCodeBox's auto-discovery, name by name and label by label, so that it can be
// replaced in place. The discovery recognizes its own objects by their field manager, and not by labels, which
// another discovery has too.
package kubernetes
