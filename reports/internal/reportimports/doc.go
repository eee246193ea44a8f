// SPDX-License-Identifier: Apache-2.0

// Package reportimports serves ReportImport, a kind that is created and never stored: it writes the reports of a migration
// as they are, with their uid, creationTimestamp, generation, finalizers and managedFields.
//
//	POST ─► admission ─► each object: decode, validate ─► storage of its kind, past the registry ─► status, 201
//
// What it decides:
//
//   - Each object is written or refused by itself, and the status says which, in the order of the spec. One that cannot be
//     written does not hold up the others, so that a migration can list all of them at its end.
//   - An object that is there with the same uid is overwritten by a newer one: one with a higher generation, or a later
//     entry of managedFields. Resource versions are not a measure, since those of CRDs are numbers of another database.
//   - Another uid under the name is a conflict. Nothing is written over what somebody else has made.
//   - What has gone where it came from is removed here past its finalizers, if it still has the uid.
//   - The counter is raised once: all numbers before are too old then, and every watcher lists anew.
//   - A dry run says what would become of each object.
package reportimports
