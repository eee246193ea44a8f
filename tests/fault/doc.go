// SPDX-License-Identifier: Apache-2.0

// Package fault lets Scans run while what they stand on breaks: the operator is
// killed, object storage refuses, the API server goes away. However it breaks, every
// Scan ends Done, every phase has run exactly once (counted by the UIDs of Jobs), and
// nothing is left in storage when the Scans are deleted.
//
// What breaks when is drawn from a seed. It is printed, and FAULT_SEED sets it;
// FAULT_SCANS sets how many Scans there are. A soak, "make soak", goes on for FAULT_SOAK (2h).
// The environment is that of package e2e.
package fault
