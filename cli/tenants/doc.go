// SPDX-License-Identifier: Apache-2.0

// Package tenants has the commands about shared parts of a cluster: queue, which shows which Scans wait
// for which limits, and settings, which shows the settings in force in a namespace and their origin.
package tenants
