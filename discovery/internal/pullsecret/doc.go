// SPDX-License-Identifier: Apache-2.0

// Package pullsecret hands the credentials of one image registry, from the pull secrets that are mounted
// into a pod, to that pod's scanner.
//
// Scanners such as trivy pull their image by themselves and read user name and password from their
// environment. The init container of a scan of auto-discovery uses this package to find the registry of
// an image (Domain) and the credentials that the kubelet would use for it (Find), and to write a Secret
// of the pod with only these two values (Store). The Secret is deleted with the pod.
//
// Keys are matched as the kubelet does: with and without scheme, with a path, with
// wildcards in the host, the longest path first, and Docker Hub under each of its names.
package pullsecret
