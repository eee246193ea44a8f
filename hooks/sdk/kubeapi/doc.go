// SPDX-License-Identifier: Apache-2.0

// Package kubeapi asks the Kubernetes API server, and asks again while it is away. Objects stay the bytes that they are,
// so there is no kind to know.
package kubeapi
