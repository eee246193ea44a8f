// SPDX-License-Identifier: Apache-2.0

// Package signin says who somebody is by the word of others: an OIDC provider, or a proxy before the console.
//
//	Provider: Begin ─► the provider's page ─► Finish ─► ID token, which the API server takes
//	Proxy: headers of a request from a trusted address ─► Identity, which the API server is asked as
//
// What it decides:
//
//   - A sign-in at a provider is an authorization code with PKCE, a state and a nonce. The ID token is verified here and, with
//     every request, by the API server: the console gives nobody a right.
//   - Headers count from trusted addresses only. Groups count where the list of groups has them, and no name that begins with
//     system: counts. Who is not in the list of users is asked as one user for all, by the rights of their groups; the API
//     server writes the name down beside that.
package signin
