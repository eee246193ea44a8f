// SPDX-License-Identifier: Apache-2.0

// Package answer says what the answers of far ends mean for the data: the one table of statuses of HTTP and codes of gRPC that all sinks go by.
package answer
