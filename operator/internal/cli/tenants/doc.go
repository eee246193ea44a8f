// SPDX-License-Identifier: Apache-2.0

// Package tenants has the commands about what is shared on a cluster: queue, which tells
// who waits for what, and settings, which tells what holds in a namespace and who says so.
package tenants
