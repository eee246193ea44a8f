// SPDX-License-Identifier: Apache-2.0

// Package image decides how a recipe and its lock become images, one per platform:
//
//	base, or Debian packages ─► programs ─► files, folders, links, accounts, certificates ─► configuration, labels
//
// Everything in an image has the recipe's date, or SOURCE_DATE_EPOCH's. An image says nothing of the machine it
// was built on, so that the same input gives the same digest.
package image
