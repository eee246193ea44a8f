// SPDX-License-Identifier: Apache-2.0

// Package proxy is the registry that an adapter sees: it listens on loopback, is read-only, and has one image for one token.
//
//	adapter ── token ──► Server ── Grant: digests of one image ──► Source: the worker's client, with the credentials
//
// What it decides:
//
//   - An adapter that was taken over by an image reaches that image and nothing else. Credentials stay in the worker.
//   - What does not have its digest never ends: its last bytes are held back, and the connection is closed.
//   - The grant remembers why something could not be had. That is the reason of the request, whatever the adapter makes of it.
package proxy
