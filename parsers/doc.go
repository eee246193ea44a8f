// SPDX-License-Identifier: Apache-2.0

// Package parsers lists all parsers that the binary holds. A new one is one line in registry.go.
package parsers
