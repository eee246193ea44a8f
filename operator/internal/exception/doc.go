// SPDX-License-Identifier: Apache-2.0

// Package exception writes the status of each FindingException and ClusterFindingException.
//
//	observe ─► validity.Decide ─► act
//
// validity decides whether an exception holds and how many findings it matched. This package reads what that needs and
// writes the status. Matches are counted over the latest Scan of each target, as far as the Scans still exist; a Scan
// that names too many exceptions leaves some out. They are counted again when such a Scan ends or is deleted.
package exception
