// SPDX-License-Identifier: Apache-2.0

// Package tenants has the commands about what is shared on a cluster: queue, which shows
// who waits for what, and settings, which shows what is in force in a namespace and where it comes from.
package tenants
