// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Scanyard as its users have it: a Kubernetes API server, the
// operator and the charts installed by Helm, real scanners, a real object storage.
// It looks only at what any client can see.
//
// The tests share one cluster, which TestMain starts, and each has a namespace of its
// own. Upload URLs of scanners live three seconds there, so that every scan which
// takes longer goes through the operator's upload endpoint. Tests that are called
// TestDefect<NN> hold against the numbered defects of secureCodeBox; docs/defects.md
// lists them.
//
// They need the project's binaries (make build), nmap, git, Helm and gitleaks:
//
//	SCANYARD_BIN=../../bin HELM=helm GITLEAKS=gitleaks go test ./e2e
package e2e
