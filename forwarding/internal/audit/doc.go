// SPDX-License-Identifier: Apache-2.0

// Package audit makes records of decisions from what a kube-apiserver writes down: events of audit.k8s.io/v1. It is pure.
//
//	event ──► answered with 403, 422 or 400 by an admission webhook or policy ──► webhook_violation
//	      ──► annotated by a policy whose action is Audit ────────────────────► audit_violation for each failure
//	      ──► all others are passed over
//
// What it decides:
//
//   - A record is named by the audit ID and its place in the event, so that an event that comes twice makes the same records.
//   - Objects are left out: a request may hold a Secret, and the audit ID leads to the event.
package audit
