// SPDX-License-Identifier: Apache-2.0

// Package compare finds what is new in a run of a scanner, what the previous run had too, and what is gone.
//
//	previous findings ─► Set.Add …            what is remembered: 16 bytes and a bit each
//	current findings  ─► Set.Classify ─► New | Known
//	previous findings ─► Set.IsFixed  ─► those that no current finding has
//
// What it decides:
//
//   - Two findings are the same when their marks are: the fingerprint where the parser gives one, else what the finding
//     says without its id, its times and its Scan. A fingerprint leaves the severity out, so a finding that got worse
//     is known; where there is none, everything that differs makes another finding.
//   - Findings that a run has several times under one mark are one.
package compare
