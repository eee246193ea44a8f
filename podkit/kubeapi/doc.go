// SPDX-License-Identifier: Apache-2.0

// Package kubeapi asks the Kubernetes API for objects as JSON, and waits while the API server is away.
//
// What it decides:
//
//   - It speaks plain HTTP with client-go's credentials. A client with caches and codecs would cost more memory than most
//     programs in a scan's pod need for their work.
//   - An API server that does not answer, or is overloaded, is asked again for as long as the policy says. Everything that is
//     asked must be safe to repeat.
//   - Refusals are those of package api/errors, with the API server's own words.
//   - A path is made of names that others may have written, so no segment of it leads anywhere else.
package kubeapi
