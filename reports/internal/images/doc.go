// SPDX-License-Identifier: Apache-2.0

// Package images keeps what is asked of images, SBOMs and their reports, beside the objects that hold it.
//
//	Image, Repository, SBOM, VulnerabilityReport ─► Row ─► subjects ─► field selectors, ImageQuery, reuse
//	documents ─► packages of a content ─┐
//	adapters ─► keys of packages ───────┴─► which reports newer data touches: ImageQuery need Match, currentAsOf
//	new data ─► its changed keys ───────┘
//
// What it decides:
//
//   - A report of data s is touched at data t when the difference to the data before is not known for any of (s, t], or when
//     any key of its packages or of its findings has changed in one of them. Keys may be too many, never too few.
//   - How far a report is known to be good is a number that clients do not see: moving it writes no object.
//   - Content is shared with another namespace only where both sides have said that it may be, and it comes of the same host.
package images
