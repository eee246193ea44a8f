// SPDX-License-Identifier: Apache-2.0

// Package install puts Scanyard on a local cluster the way its users put it on
// theirs: with Helm, from the charts of this repository. The operator runs as a
// Deployment with the rights that its chart gives it, and every image of the
// charts stands for a program that was built, or is installed, on this machine.
//
//	Programs ──► images map ──► local cluster
//	    └──────► helm install scanyard, nmap, gitleaks, … with the cluster's S3
package install
