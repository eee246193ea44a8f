// SPDX-License-Identifier: Apache-2.0

// Package targets says which ScheduledScans a namespace should have. It has no client, no clock and no environment.
//
//	View: the namespace, its Services, Pods, Ingresses, HTTPRoutes, and the ScheduledScans there are
//	  └── Decide ──► Plan: what to create, update, renew and delete, and a verdict on each target
//
// What it decides:
//
//   - What is a target: ports of Services (services.go), images of containers (containers.go), hosts of Ingresses and HTTPRoutes
//     (routes.go), unless annotations, selectors or limits leave it out. Each that is left out has a verdict that says why.
//   - What a ScheduledScan is called and holds (names.go), and when it is run at once: when what it scans has a new version.
//   - What goes: ScheduledScans of ours whose target is gone. What nothing can be said about at the moment stays as it is.
package targets
