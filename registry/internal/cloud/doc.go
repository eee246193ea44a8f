// SPDX-License-Identifier: Apache-2.0

// Package cloud gives the credentials of a cloud's registry by the identity that the worker's pod has there.
//
//	AWS    token of the pod ──STS──► keys ──ECR──► user and password, for 12 hours
//	GCP    metadata server ──► access token, for an hour
//	Azure  token of the pod ──Entra ID──► access token ──the registry──► identity token, for 3 hours
//
// What it decides:
//
//   - Each identity goes to the registries of its cloud alone, by the name of the host: a Registry of another host gets no credential.
//   - The protocols are some requests each, so no library of a cloud is linked: hundreds of packages for three calls.
//   - The identity of the node is not asked for: it is not an identity of the pod.
//   - Credentials are kept in memory until 5 minutes before their end. No error and no log holds one.
package cloud
