// SPDX-License-Identifier: Apache-2.0

// Package console is the page where people look: what is bad now, what is new, whose it is, what a scan did.
//
//	scanyard console ─┐
//	cmd/console ──────┴► New ─► Handler ─► pages, rendered here with the viewer's rights
//
// It reads the Kubernetes API, the reports API and stored findings with the credentials of the person who looks, and stores
// nothing. Every page works without script.
package console
