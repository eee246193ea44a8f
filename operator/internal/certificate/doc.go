// SPDX-License-Identifier: Apache-2.0

// Package certificate makes the certificates that the operator serves with inside the cluster, and keeps them in Secrets
// of its own namespace. What calls the operator is told its authority by the operator itself, so that nobody has to set
// up an issuer: lurkers by an environment variable, the API server by the caBundle of a webhook configuration.
package certificate
