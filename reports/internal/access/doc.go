// SPDX-License-Identifier: Apache-2.0

// Package access says who may do what with the reports API server.
//
//	in a cluster ─► front proxy or token ─► kube-apiserver is asked (TokenReview, SubjectAccessReview) ─► admission
//	stand-alone  ─► tokens of a file, client certificates ─► groups and namespaces of the file
//
// What it decides:
//
//   - In a cluster nothing is decided here: kube-apiserver is asked, and its answers are kept for seconds.
//   - Who has no credentials sees whether the server is alive and ready, and its version, no more.
//   - kube-apiserver runs no admission for what it passes on. So namespaces, quotas, policies and webhooks are looked at here.
package access
