// SPDX-License-Identifier: Apache-2.0

// Package pullsecret hands the credentials of one image registry, out of the pull secrets
// that are mounted into a pod, to that pod's scanner.
//
// Scanners such as trivy pull the image they look at by themselves and take user name and
// password from their environment. The init container of a scan that auto-discovery has
// made does what is decided here: which registry an image comes from (Domain), which of
// the credentials the kubelet would use for it (Find), and a Secret of the pod that holds
// no more than these two values (Store). The Secret goes when the pod goes.
//
// Keys are matched as the kubelet does: with and without scheme, with a path, with
// wildcards in the host, the longest path first, and Docker Hub under each of its names.
package pullsecret
