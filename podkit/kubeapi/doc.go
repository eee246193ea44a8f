// SPDX-License-Identifier: Apache-2.0

// Package kubeapi reads and patches objects of the Kubernetes API as JSON, and waits while the API server is away.
//
// What it decides:
//
//   - It uses plain HTTP with client-go's credentials. A client with caches and codecs would cost more memory than most
//     programs in a scan's pod need for their work.
//   - A request to an API server that does not respond, or is overloaded, is retried as long as the policy says. Every
//     request must be safe to repeat.
//   - Refusals are errors of package api/errors, with the API server's own message.
//   - A path is made of names that other clients may have written, so no segment can lead to another path.
package kubeapi
