// SPDX-License-Identifier: Apache-2.0

// Package results says what is written to the reports API of what a discovery has found: names, labels, owners, and which Images are
// new, moved on or gone.
//
//	discovery.Result ──┐
//	Images that exist ─┴─Plan─► Images to create, statuses to change, digests to read again
//
// What it decides:
//
//   - The same thing seen again has the same name: a name is a function of the Registry's UID and of what the thing is. Another digest
//     of a tag, and a Registry made anew, have other names.
//   - After an incomplete list nothing is taken for gone, and no tag for moved.
//   - A digest that is known, but whose Image somebody has deleted, is read again: what is known does not make an Image.
//   - Labels are for people. Programs go by fields.
package results
