// SPDX-License-Identifier: Apache-2.0

// Package complete completes arguments with names from the cluster: scan types, Scans, ScheduledScans,
// namespaces. Where the cluster does not respond, it completes nothing.
package complete
