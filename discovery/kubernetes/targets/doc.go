// SPDX-License-Identifier: Apache-2.0

// Package targets says which ScheduledScans a namespace should have. It has no client, no clock and no environment.
//
//	Observation: the namespace, its Services, Pods, Ingresses, HTTPRoutes, and the ScheduledScans there are
//	  └── Decide ──► Decision: what to create, update, renew and delete, and a result for each target
//
// What it decides:
//
//   - What is a target: ports of Services (services.go), images of containers (containers.go), hosts of Ingresses and HTTPRoutes
//     (routes.go), unless annotations, selectors or limits leave it out. The result of a target that is left out has the reason.
//   - The name and content of a ScheduledScan (names.go), and when it runs at once: when its target has a new version.
//   - What is deleted: our ScheduledScans whose target is gone. Where the target is unknown at the moment, they do not change.
package targets
