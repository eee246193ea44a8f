// SPDX-License-Identifier: Apache-2.0

// Package complete completes arguments with what is in the cluster: scan types, Scans,
// ScheduledScans, namespaces. Where the cluster cannot be asked, it completes nothing.
package complete
