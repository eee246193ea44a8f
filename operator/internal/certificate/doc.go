// SPDX-License-Identifier: Apache-2.0

// Package certificate makes the certificates with which the operator serves inside the cluster, and keeps them in Secrets
// of the operator's namespace. The operator itself hands the authority to its clients, so that no issuer has to be set
// up: to lurkers by an environment variable, to the API server by the caBundle of a webhook configuration.
package certificate
