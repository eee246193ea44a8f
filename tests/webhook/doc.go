// SPDX-License-Identifier: Apache-2.0

// Package webhook receives what the generic-webhook hook posts, and remembers it
// by path.
package webhook
