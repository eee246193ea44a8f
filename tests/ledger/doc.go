// SPDX-License-Identifier: Apache-2.0

// Package ledger counts which Jobs each Scan has ever had. Jobs are told apart by
// their UID, so that one which was deleted and made again under its name counts
// twice: that is how tests see whether a phase ran more than once.
package ledger
